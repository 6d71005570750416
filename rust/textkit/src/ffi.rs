//! The C ABI of `textkit.h`: the only unsafe code of the crate.
//!
//! Every export runs behind a panic guard, returns a status and leaves the text of its failure for
//! `textkit_last_error` of the same thread. Buffers belong to the caller; a call that needs a larger one says how large.

#![allow(unsafe_code)]

use std::cell::{Cell, RefCell};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::Once;

use crate::gguf_vocab::GgufVocab;
use crate::grammar::{json_part, Grammar, Kind};
use crate::matcher::{Matcher, State};
use crate::pieces::LeadingSpace;
use crate::template::Template;
use crate::tokenizer::{Specials, TextTokenizer};
use crate::vocabulary::{GrammarEnv, Vocabulary};
use crate::{Failure, Outcome};

pub const TEXTKIT_OK: i32 = 0;
pub const TEXTKIT_INVALID: i32 = 1;
pub const TEXTKIT_UNSUPPORTED: i32 = 2;
pub const TEXTKIT_REFUSED: i32 = 3;
pub const TEXTKIT_TOO_SMALL: i32 = 4;
pub const TEXTKIT_PANIC: i32 = 5;

pub struct TextkitTokenizer(TextTokenizer);
pub struct TextkitTemplate(Template);
pub struct TextkitGrammarEnv(GrammarEnv);
pub struct TextkitGrammar(Grammar);
pub struct TextkitMatcher(Matcher);

/// Bytes with an explicit length. `data` may be null when `size` is 0.
#[repr(C)]
pub struct TextkitBytes {
    pub data: *const u8,
    pub size: usize,
}

/// Many byte strings end to end: string i is bytes[offsets[i]..offsets[i + 1]].
#[repr(C)]
pub struct TextkitStrings {
    pub bytes: TextkitBytes,
    pub offsets: *const u64,
    pub count: usize,
}

/// Ids are -1 and flags -1 where the file says nothing.
#[repr(C)]
pub struct TextkitGgufVocab {
    pub model: TextkitBytes,
    pub pre: TextkitBytes,
    pub name: TextkitBytes,
    pub tokens: TextkitStrings,
    pub merges: TextkitStrings,
    pub token_types: *const i32,
    pub token_types_count: usize,
    pub scores: *const f32,
    pub scores_count: usize,
    pub bos_id: i32,
    pub eos_id: i32,
    pub unk_id: i32,
    pub add_bos: i32,
    pub add_eos: i32,
    pub add_space_prefix: i32,
}

#[repr(C)]
pub struct TextkitTokenizerInfo {
    pub vocab_size: usize,
    pub pieces_bytes: usize,
    /// 0 keep, 1 strip one, 2 strip the spaces of the first token
    pub leading_space: i32,
}

/// Piece i is pieces.bytes[pieces.offsets[i]..]; bit 0 of flags[i] marks control tokens.
#[repr(C)]
pub struct TextkitVocabulary {
    pub pieces: TextkitStrings,
    pub flags: *const u8,
    pub ends: *const u32,
    pub ends_count: usize,
}

thread_local! {
    static LAST_ERROR: RefCell<String> = const { RefCell::new(String::new()) };
    static GUARDED: Cell<bool> = const { Cell::new(false) };
}

enum Stop {
    Failed(Failure),
    TooSmall,
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Stop {
        Stop::Failed(failure)
    }
}

fn set_error(text: &str) {
    LAST_ERROR.with(|last| *last.borrow_mut() = text.to_string());
}

/// A caught panic would still print: inside a guard its text goes to the last error instead.
fn install_hook() {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let previous = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| match GUARDED.with(Cell::get) {
            true => set_error(&format!("panic: {info}")),
            false => previous(info),
        }));
    });
}

fn guard(body: impl FnOnce() -> Result<(), Stop>) -> i32 {
    install_hook();
    let outer = GUARDED.with(|guarded| guarded.replace(true));
    let result = catch_unwind(AssertUnwindSafe(body));
    GUARDED.with(|guarded| guarded.set(outer));
    match result {
        Ok(Ok(())) => TEXTKIT_OK,
        Ok(Err(Stop::TooSmall)) => {
            set_error("the buffer is too small");
            TEXTKIT_TOO_SMALL
        }
        Ok(Err(Stop::Failed(failure))) => {
            set_error(failure.text());
            match failure {
                Failure::Invalid(_) => TEXTKIT_INVALID,
                Failure::Unsupported(_) => TEXTKIT_UNSUPPORTED,
                Failure::Refused(_) => TEXTKIT_REFUSED,
            }
        }
        Err(_) => TEXTKIT_PANIC,
    }
}

unsafe fn slice<'a, T>(data: *const T, count: usize) -> &'a [T] {
    match data.is_null() || count == 0 {
        true => &[],
        false => std::slice::from_raw_parts(data, count),
    }
}

unsafe fn bytes<'a>(view: &TextkitBytes) -> &'a [u8] {
    slice(view.data, view.size)
}

fn utf8<'a>(bytes: &'a [u8], what: &str) -> Outcome<&'a str> {
    std::str::from_utf8(bytes).map_err(|e| crate::invalid(what, e))
}

unsafe fn strings(view: &TextkitStrings, what: &str) -> Outcome<Vec<String>> {
    if view.count == 0 {
        return Ok(Vec::new());
    }
    let all = bytes(&view.bytes);
    let offsets = slice(view.offsets, view.count + 1);
    let one = |pair: &[u64]| {
        let part = all.get(pair[0] as usize..pair[1] as usize);
        let part = part.ok_or_else(|| Failure::Invalid(format!("{what}: offsets outside the bytes")))?;
        Ok(utf8(part, what)?.to_string())
    };
    offsets.windows(2).map(one).collect()
}

unsafe fn copy<T: Copy>(from: &[T], to: *mut T, capacity: usize) -> Result<(), Stop> {
    if from.len() > capacity {
        return Err(Stop::TooSmall);
    }
    if !from.is_empty() {
        std::ptr::copy_nonoverlapping(from.as_ptr(), to, from.len());
    }
    Ok(())
}

/// Copies the failure of this thread's last call into `buffer` and returns its whole length in bytes.
///
/// # Safety
/// `buffer` holds `capacity` bytes.
#[no_mangle]
pub unsafe extern "C" fn textkit_last_error(buffer: *mut u8, capacity: usize) -> usize {
    LAST_ERROR.with(|last| {
        let text = last.borrow();
        let count = text.len().min(capacity);
        if count > 0 {
            std::ptr::copy_nonoverlapping(text.as_ptr(), buffer, count);
        }
        text.len()
    })
}

/// # Safety
/// The views and `out` are valid.
#[no_mangle]
pub unsafe extern "C" fn textkit_tokenizer_from_json(
    json: TextkitBytes,
    config: TextkitBytes,
    out: *mut *mut TextkitTokenizer,
) -> i32 {
    guard(|| {
        let tokenizer = TextTokenizer::from_json(bytes(&json), bytes(&config))?;
        *out = Box::into_raw(Box::new(TextkitTokenizer(tokenizer)));
        Ok(())
    })
}

/// # Safety
/// Everything that `vocab` points to is valid for the length given beside it, and `out` is valid.
#[no_mangle]
pub unsafe extern "C" fn textkit_tokenizer_from_gguf(
    vocab: *const TextkitGgufVocab,
    out: *mut *mut TextkitTokenizer,
) -> i32 {
    guard(|| {
        let given = &*vocab;
        let flag = |value: i32| (value >= 0).then_some(value > 0);
        let text = |view: &TextkitBytes, what: &str| utf8(bytes(view), what).map(str::to_string);
        let vocab = GgufVocab {
            model: text(&given.model, "tokenizer.ggml.model")?,
            pre: text(&given.pre, "tokenizer.ggml.pre")?,
            name: text(&given.name, "general.name")?,
            tokens: strings(&given.tokens, "tokenizer.ggml.tokens")?,
            merges: strings(&given.merges, "tokenizer.ggml.merges")?,
            token_types: slice(given.token_types, given.token_types_count).to_vec(),
            scores: slice(given.scores, given.scores_count).to_vec(),
            bos: u32::try_from(given.bos_id).ok(),
            eos: u32::try_from(given.eos_id).ok(),
            unk: u32::try_from(given.unk_id).ok(),
            add_bos: flag(given.add_bos),
            add_eos: flag(given.add_eos),
            add_space_prefix: flag(given.add_space_prefix),
        };
        *out = Box::into_raw(Box::new(TextkitTokenizer(vocab.build()?)));
        Ok(())
    })
}

/// # Safety
/// `tokenizer` came from this library and is not used again. Null is allowed.
#[no_mangle]
pub unsafe extern "C" fn textkit_tokenizer_free(tokenizer: *mut TextkitTokenizer) {
    guard(|| {
        if !tokenizer.is_null() {
            drop(Box::from_raw(tokenizer));
        }
        Ok(())
    });
}

/// # Safety
/// `tokenizer` is a live handle and `out` is valid.
#[no_mangle]
pub unsafe extern "C" fn textkit_tokenizer_info(
    tokenizer: *const TextkitTokenizer,
    out: *mut TextkitTokenizerInfo,
) -> i32 {
    guard(|| {
        let pieces = (*tokenizer).0.pieces();
        *out = TextkitTokenizerInfo {
            vocab_size: pieces.len(),
            pieces_bytes: pieces.bytes.len(),
            leading_space: match pieces.leading {
                LeadingSpace::Keep => 0,
                LeadingSpace::StripOne => 1,
                LeadingSpace::StripFirstToken => 2,
            },
        };
        Ok(())
    })
}

/// Piece i is bytes[offsets[i]..offsets[i + 1]]; bit 0 of flags[i] says special, bit 1 that the id exists.
///
/// # Safety
/// `piece_bytes` holds `pieces_bytes`, `offsets` `vocab_size + 1` and `flags` `vocab_size` entries.
#[no_mangle]
pub unsafe extern "C" fn textkit_tokenizer_pieces(
    tokenizer: *const TextkitTokenizer,
    piece_bytes: *mut u8,
    offsets: *mut u64,
    flags: *mut u8,
) -> i32 {
    guard(|| {
        let pieces = (*tokenizer).0.pieces();
        copy(&pieces.bytes, piece_bytes, pieces.bytes.len())?;
        copy(&pieces.offsets, offsets, pieces.offsets.len())?;
        copy(&pieces.flags, flags, pieces.flags.len())
    })
}

/// Writes the ids of `text` and their count; if `capacity` is too small, only the count. `specials` says what becomes of
/// text that spells a special token: 0 ordinary text, 1 the token, 2 the token unless marked.
///
/// # Safety
/// `tokenizer` is a live handle, `ids` holds `capacity` entries and `count` is valid.
#[no_mangle]
pub unsafe extern "C" fn textkit_tokenizer_encode(
    tokenizer: *const TextkitTokenizer,
    text: TextkitBytes,
    add_special: bool,
    specials: i32,
    ids: *mut u32,
    capacity: usize,
    count: *mut usize,
) -> i32 {
    guard(|| {
        let text = utf8(bytes(&text), "text")?;
        let specials = match specials {
            0 => Specials::Plain,
            1 => Specials::Parsed,
            2 => Specials::UnlessMarked,
            other => return Err(Failure::Invalid(format!("specials: {other}")).into()),
        };
        let encoded = (*tokenizer).0.encode(text, add_special, specials)?;
        *count = encoded.len();
        copy(&encoded, ids, capacity)
    })
}

/// The id of a token as the vocabulary spells it, or -1.
///
/// # Safety
/// `tokenizer` is a live handle and `id` is valid.
#[no_mangle]
pub unsafe extern "C" fn textkit_tokenizer_id(
    tokenizer: *const TextkitTokenizer,
    token: TextkitBytes,
    id: *mut i64,
) -> i32 {
    guard(|| {
        let token = std::str::from_utf8(bytes(&token)).ok();
        *id = token.and_then(|token| (*tokenizer).0.token_to_id(token)).map_or(-1, i64::from);
        Ok(())
    })
}

/// Writes a tokenizer.json that gives the same ids, and its size in bytes; if `capacity` is too small, only the size.
///
/// # Safety
/// `tokenizer` is a live handle, `buffer` holds `capacity` bytes and `size` is valid.
#[no_mangle]
pub unsafe extern "C" fn textkit_tokenizer_json(
    tokenizer: *const TextkitTokenizer,
    buffer: *mut u8,
    capacity: usize,
    size: *mut usize,
) -> i32 {
    guard(|| {
        let text = (*tokenizer).0.to_json()?;
        *size = text.len();
        copy(text.as_bytes(), buffer, capacity)
    })
}

/// # Safety
/// `source` and `out` are valid.
#[no_mangle]
pub unsafe extern "C" fn textkit_template_compile(source: TextkitBytes, out: *mut *mut TextkitTemplate) -> i32 {
    guard(|| {
        let source = utf8(bytes(&source), "template")?;
        *out = Box::into_raw(Box::new(TextkitTemplate(Template::compile(source)?)));
        Ok(())
    })
}

/// # Safety
/// `chat_template` came from this library and is not used again. Null is allowed.
#[no_mangle]
pub unsafe extern "C" fn textkit_template_free(chat_template: *mut TextkitTemplate) {
    guard(|| {
        if !chat_template.is_null() {
            drop(Box::from_raw(chat_template));
        }
        Ok(())
    });
}

/// Renders with the variables of a JSON object. `local_time_s` is what `strftime_now` sees. Writes the text and its size in bytes; if `capacity` is too small, only
/// the size.
///
/// # Safety
/// `chat_template` is a live handle, `buffer` holds `capacity` bytes and `size` is valid.
#[no_mangle]
pub unsafe extern "C" fn textkit_template_render(
    chat_template: *const TextkitTemplate,
    context: TextkitBytes,
    local_time_s: i64,
    buffer: *mut u8,
    capacity: usize,
    size: *mut usize,
) -> i32 {
    guard(|| {
        let text = (*chat_template).0.render(bytes(&context), local_time_s)?;
        *size = text.len();
        copy(text.as_bytes(), buffer, capacity)
    })
}

/// # Safety
/// Everything that `vocabulary` points to is valid for the length given beside it, and `out` is valid.
#[no_mangle]
pub unsafe extern "C" fn textkit_grammar_env_make(
    vocabulary: *const TextkitVocabulary,
    out: *mut *mut TextkitGrammarEnv,
) -> i32 {
    guard(|| {
        let given = &*vocabulary;
        let env = GrammarEnv::new(&Vocabulary {
            bytes: bytes(&given.pieces.bytes),
            offsets: slice(given.pieces.offsets, given.pieces.count + 1),
            flags: slice(given.flags, given.pieces.count),
            ends: slice(given.ends, given.ends_count),
        })?;
        *out = Box::into_raw(Box::new(TextkitGrammarEnv(env)));
        Ok(())
    })
}

/// # Safety
/// `env` came from this library and is not used again; its grammars and matchers may be. Null is allowed.
#[no_mangle]
pub unsafe extern "C" fn textkit_grammar_env_free(env: *mut TextkitGrammarEnv) {
    guard(|| {
        if !env.is_null() {
            drop(Box::from_raw(env));
        }
        Ok(())
    });
}

/// Writes ids whose bytes joined are `text`, and their count; if `capacity` is too small, only the count.
///
/// # Safety
/// `env` is a live handle, `ids` holds `capacity` entries and `count` is valid.
#[no_mangle]
pub unsafe extern "C" fn textkit_grammar_env_cover(
    env: *const TextkitGrammarEnv,
    text: TextkitBytes,
    ids: *mut u32,
    capacity: usize,
    count: *mut usize,
) -> i32 {
    guard(|| {
        let cover = (*env).0.cover(bytes(&text));
        *count = cover.len();
        copy(&cover, ids, capacity)
    })
}

/// `kind`: 0 a JSON schema, 1 any JSON object, 2 a regular expression, 3 a JSON array of texts to choose from, 4 Lark.
///
/// # Safety
/// `env` is a live handle, the view and `out` are valid.
#[no_mangle]
pub unsafe extern "C" fn textkit_grammar_compile(
    env: *const TextkitGrammarEnv,
    kind: i32,
    source: TextkitBytes,
    out: *mut *mut TextkitGrammar,
) -> i32 {
    guard(|| {
        let kind = match kind {
            0 => Kind::JsonSchema,
            1 => Kind::JsonObject,
            2 => Kind::Regex,
            3 => Kind::Choice,
            4 => Kind::Lark,
            other => return Err(Failure::Invalid(format!("kind: {other}")).into()),
        };
        let grammar = Grammar::compile(&(*env).0, kind, utf8(bytes(&source), "grammar")?)?;
        *out = Box::into_raw(Box::new(TextkitGrammar(grammar)));
        Ok(())
    })
}

/// # Safety
/// `grammar` came from this library and is not used again; its matchers may be. Null is allowed.
#[no_mangle]
pub unsafe extern "C" fn textkit_grammar_free(grammar: *mut TextkitGrammar) {
    guard(|| {
        if !grammar.is_null() {
            drop(Box::from_raw(grammar));
        }
        Ok(())
    });
}

/// Writes the JSON schema as a `%json` part of a Lark grammar should have it, and its size in bytes; if `capacity` is
/// too small, only the size.
///
/// # Safety
/// `buffer` holds `capacity` bytes and `size` is valid.
#[no_mangle]
pub unsafe extern "C" fn textkit_grammar_json_part(
    schema: TextkitBytes,
    buffer: *mut u8,
    capacity: usize,
    size: *mut usize,
) -> i32 {
    guard(|| {
        let text = json_part(utf8(bytes(&schema), "schema")?)?;
        *size = text.len();
        copy(text.as_bytes(), buffer, capacity)
    })
}

/// # Safety
/// `grammar` is a live handle and `out` is valid.
#[no_mangle]
pub unsafe extern "C" fn textkit_matcher_make(grammar: *const TextkitGrammar, out: *mut *mut TextkitMatcher) -> i32 {
    guard(|| {
        *out = Box::into_raw(Box::new(TextkitMatcher((*grammar).0.matcher()?)));
        Ok(())
    })
}

/// # Safety
/// `matcher` is a live handle that no other thread uses, and `out` is valid.
#[no_mangle]
pub unsafe extern "C" fn textkit_matcher_clone(matcher: *const TextkitMatcher, out: *mut *mut TextkitMatcher) -> i32 {
    guard(|| {
        *out = Box::into_raw(Box::new(TextkitMatcher((*matcher).0.copy())));
        Ok(())
    })
}

/// # Safety
/// `matcher` came from this library and is not used again. Null is allowed.
#[no_mangle]
pub unsafe extern "C" fn textkit_matcher_free(matcher: *mut TextkitMatcher) {
    guard(|| {
        if !matcher.is_null() {
            drop(Box::from_raw(matcher));
        }
        Ok(())
    });
}

/// Writes all of `words`: bit t % 32 of words[t / 32] is set for a token t that may follow.
///
/// # Safety
/// `matcher` is a live handle that no other thread uses, and `words` holds `count` entries.
#[no_mangle]
pub unsafe extern "C" fn textkit_matcher_mask(matcher: *mut TextkitMatcher, words: *mut u32, count: usize) -> i32 {
    guard(|| Ok((*matcher).0.mask(std::slice::from_raw_parts_mut(words, count))?))
}

/// # Safety
/// `matcher` is a live handle that no other thread uses, and `tokens` holds `count` entries.
#[no_mangle]
pub unsafe extern "C" fn textkit_matcher_consume(
    matcher: *mut TextkitMatcher,
    tokens: *const u32,
    count: usize,
) -> i32 {
    guard(|| Ok((*matcher).0.consume(slice(tokens, count))?))
}

/// Writes how many of the tokens, from the first, may follow.
///
/// # Safety
/// `matcher` is a live handle that no other thread uses, `tokens` holds `count` entries and `valid` is valid.
#[no_mangle]
pub unsafe extern "C" fn textkit_matcher_validate(
    matcher: *mut TextkitMatcher,
    tokens: *const u32,
    count: usize,
    valid: *mut usize,
) -> i32 {
    guard(|| {
        *valid = (*matcher).0.validate(slice(tokens, count))?;
        Ok(())
    })
}

/// Takes back the last `count` tokens.
///
/// # Safety
/// `matcher` is a live handle that no other thread uses.
#[no_mangle]
pub unsafe extern "C" fn textkit_matcher_rollback(matcher: *mut TextkitMatcher, count: usize) -> i32 {
    guard(|| Ok((*matcher).0.rollback(count)?))
}

/// Writes 0 where more must follow, 1 where the answer may end, 2 where it is complete.
///
/// # Safety
/// `matcher` is a live handle that no other thread uses, and `state` is valid.
#[no_mangle]
pub unsafe extern "C" fn textkit_matcher_state(matcher: *mut TextkitMatcher, state: *mut i32) -> i32 {
    guard(|| {
        *state = match (*matcher).0.state()? {
            State::Open => 0,
            State::Accepting => 1,
            State::Complete => 2,
        };
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(text: &str) -> TextkitBytes {
        TextkitBytes { data: text.as_ptr(), size: text.len() }
    }

    fn last_error() -> String {
        let mut buffer = vec![0u8; 4096];
        let size = unsafe { textkit_last_error(buffer.as_mut_ptr(), buffer.len()) };
        buffer.truncate(size);
        String::from_utf8(buffer).unwrap()
    }

    #[test]
    fn a_panic_becomes_a_status_with_its_text() {
        assert_eq!(guard(|| panic!("in the middle")), TEXTKIT_PANIC);
        assert!(last_error().contains("in the middle"), "{}", last_error());
        assert_eq!(guard(|| Ok(())), TEXTKIT_OK);
    }

    #[test]
    fn a_small_buffer_says_what_it_needs() {
        let mut handle = std::ptr::null_mut();
        unsafe {
            assert_eq!(textkit_template_compile(view("{{ 'x' * 100 }}abc"), &mut handle), TEXTKIT_OK);
            let mut size = 0;
            let status = textkit_template_render(handle, view("{}"), 0, std::ptr::null_mut(), 0, &mut size);
            assert_eq!((status, size), (TEXTKIT_TOO_SMALL, 103));
            let mut buffer = vec![0u8; size];
            let status = textkit_template_render(handle, view("{}"), 0, buffer.as_mut_ptr(), size, &mut size);
            assert_eq!(status, TEXTKIT_OK);
            assert!(buffer.ends_with(b"xabc"));
            textkit_template_free(handle);
        }
    }

    #[test]
    fn damaged_files_are_errors_with_text() {
        let mut handle = std::ptr::null_mut();
        let status = unsafe { textkit_tokenizer_from_json(view("{\"model\":"), view(""), &mut handle) };
        assert_eq!(status, TEXTKIT_INVALID);
        assert!(last_error().starts_with("tokenizer.json: "), "{}", last_error());
        assert!(handle.is_null());
    }

    /// The committed header declares exactly the functions of this file, with the same parameters.
    #[test]
    fn the_header_matches_this_file() {
        let source = include_str!("ffi.rs");
        let source = &source[..source.find("#[cfg(test)]").unwrap()];
        let header: String = include_str!("../textkit.h").split_whitespace().collect::<Vec<_>>().join(" ");
        let mut declared = 0;
        for part in source.split("pub unsafe extern \"C\" fn ").skip(1) {
            let (name, rest) = part.split_once('(').unwrap();
            let (parameters, rest) = rest.split_once(')').unwrap();
            let result = match rest.split('{').next().unwrap().trim() {
                "" => "void",
                "-> i32" => "int32_t",
                "-> usize" => "size_t",
                other => panic!("{name}: {other}"),
            };
            let parameters: Vec<String> =
                parameters.split(',').map(str::trim).filter(|p| !p.is_empty()).map(c_parameter).collect();
            let prototype = format!("{result} {name}({});", parameters.join(", "));
            assert!(header.contains(&prototype), "textkit.h lacks: {prototype}");
            declared += 1;
        }
        let names = header.split(" textkit_").skip(1);
        let calls =
            names.filter(|rest| rest.trim_start_matches(|c: char| c.is_alphabetic() || c == '_').starts_with('('));
        assert_eq!(calls.count(), declared, "textkit.h declares other functions too");
    }

    fn c_parameter(parameter: &str) -> String {
        let (name, kind) = parameter.split_once(": ").unwrap();
        let (mut kind, mut stars, mut constant) = (kind, 0, false);
        while let Some(rest) = kind.strip_prefix("*mut ").or_else(|| kind.strip_prefix("*const ")) {
            constant |= kind.starts_with("*const ");
            (kind, stars) = (rest, stars + 1);
        }
        let kind = match kind {
            "u8" => "uint8_t",
            "u32" => "uint32_t",
            "u64" => "uint64_t",
            "i32" => "int32_t",
            "i64" => "int64_t",
            "usize" => "size_t",
            other => other,
        };
        let constant = if constant { "const " } else { "" };
        format!("{constant}{kind}{} {name}", "*".repeat(stars))
    }
}
