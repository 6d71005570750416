//! Text to token ids, from a `tokenizer.json` (with its `tokenizer_config.json`) or from a built vocabulary.

use serde::Deserialize;
use serde_json::{json, Map, Value};
use tokenizers::{
    AddedToken, AddedVocabulary, Encoding, Model, NormalizedString, OffsetReferential, OffsetType, PostProcessor,
    PreTokenizer, Token, Tokenizer,
};

use crate::pieces::Pieces;
use crate::{invalid, Failure, Outcome};

/// Immutable after it is made; every method may be called from any thread.
pub struct TextTokenizer {
    inner: Tokenizer,
    /// The same added tokens, of which the special ones are read as ordinary text.
    plain: AddedVocabulary,
    /// Special tokens put around a text when the caller asks for them.
    prefix: Vec<u32>,
    suffix: Vec<u32>,
    pieces: Pieces,
}

/// What becomes of text that spells a special token. Added tokens that are not special are always recognised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Specials {
    /// It is ordinary text.
    Plain,
    /// It is the special token.
    Parsed,
    /// It is the special token unless a `MARK` is inside it. Marks are dropped before the text is encoded.
    UnlessMarked,
}

/// A noncharacter that callers put into text which must not become a special token.
pub const MARK: char = '\u{FDD2}';

/// The parts of `tokenizer_config.json` that change ids.
#[derive(Debug, Default, Deserialize)]
struct Config {
    add_bos_token: Option<bool>,
    add_eos_token: Option<bool>,
    #[serde(default)]
    bos_token: Value,
    #[serde(default)]
    eos_token: Value,
    added_tokens_decoder: Option<Map<String, Value>>,
}

/// An added token with the id that the files promise for it.
#[derive(Debug, Clone)]
struct Promised {
    id: u32,
    token: AddedToken,
}

#[derive(Deserialize)]
struct AddedPart {
    #[serde(default)]
    added_tokens: Vec<Value>,
}

impl TextTokenizer {
    /// `config` may be empty.
    pub fn from_json(json: &[u8], config: &[u8]) -> Outcome<TextTokenizer> {
        let config: Config = match config.is_empty() {
            true => Config::default(),
            false => serde_json::from_slice(config).map_err(|e| invalid("tokenizer_config.json", e))?,
        };
        let part: AddedPart = serde_json::from_slice(json).map_err(|e| invalid("tokenizer.json", e))?;
        let mut promised = promised_by_json(&part.added_tokens)?;
        let extra = promised_by_config(&config, &promised)?;
        let mut inner = Tokenizer::from_bytes(json).map_err(|e| invalid("tokenizer.json", e))?;
        add_all(&mut inner, &extra)?;
        promised.extend(extra);
        if !keeps_promises(&inner, &promised) {
            inner = repaired(json, &promised)?;
        }
        let around = surroundings(&inner, &config)?;
        TextTokenizer::new(inner, around.0, around.1)
    }

    pub fn new(mut inner: Tokenizer, prefix: Vec<u32>, suffix: Vec<u32>) -> Outcome<TextTokenizer> {
        inner.with_truncation(None).map_err(|e| invalid("truncation", e))?;
        inner.with_padding(None);
        let mut plain = inner.get_added_vocabulary().clone();
        plain.set_encode_special_tokens(true);
        let pieces = Pieces::of(&inner)?;
        Ok(TextTokenizer { inner, plain, prefix, suffix, pieces })
    }

    /// `add_special` puts the special tokens around the text that the files ask for.
    pub fn encode(&self, text: &str, add_special: bool, specials: Specials) -> Outcome<Vec<u32>> {
        let normalizer = self.inner.get_normalizer();
        let vocabulary = if specials == Specials::Plain { &self.plain } else { self.inner.get_added_vocabulary() };
        let mut parts = vocabulary.extract_and_normalize(normalizer, text);
        if specials == Specials::UnlessMarked {
            // Only now: some special tokens are looked for in normalised text.
            let unmark = |part: &mut NormalizedString| {
                part.filter(|c| c != MARK);
                Ok(())
            };
            parts.normalize(unmark).map_err(|e| invalid("marks", e))?;
        }
        if let Some(pre) = self.inner.get_pre_tokenizer() {
            pre.pre_tokenize(&mut parts).map_err(|e| invalid("pre-tokenizer", e))?;
        }
        let model = self.inner.get_model();
        model.tokenize_in_pretokenized(&mut parts, None).map_err(|e| invalid("encode", e))?;
        let mut ids = Vec::with_capacity(text.len() / 3 + 4);
        if add_special {
            ids.extend(&self.prefix);
        }
        for (_, _, tokens) in parts.get_splits(OffsetReferential::Normalized, OffsetType::Byte) {
            ids.extend(tokens.iter().flatten().map(|token| token.id));
        }
        if add_special {
            ids.extend(&self.suffix);
        }
        Ok(ids)
    }

    pub fn token_to_id(&self, token: &str) -> Option<u32> {
        self.inner.token_to_id(token)
    }

    /// The token as the vocabulary spells it.
    pub fn id_to_token(&self, id: u32) -> Option<String> {
        self.inner.id_to_token(id)
    }

    pub fn pieces(&self) -> &Pieces {
        &self.pieces
    }

    /// A `tokenizer.json` that gives the same ids, also by itself: the special tokens around a text become its
    /// post-processor where it has none.
    pub fn to_json(&self) -> Outcome<String> {
        let mut file = serde_json::to_value(&self.inner).map_err(|e| invalid("tokenizer.json", e))?;
        if self.inner.get_post_processor().is_none() && !(self.prefix.is_empty() && self.suffix.is_empty()) {
            file["post_processor"] = self.surroundings_as_template()?;
        }
        serde_json::to_string(&file).map_err(|e| invalid("tokenizer.json", e))
    }

    fn surroundings_as_template(&self) -> Outcome<Value> {
        let name = |id: &u32| {
            let name = self.inner.id_to_token(*id);
            name.ok_or_else(|| Failure::Invalid(format!("the special token {id} is not in the vocabulary")))
        };
        let prefix = self.prefix.iter().map(name).collect::<Outcome<Vec<_>>>()?;
        let suffix = self.suffix.iter().map(name).collect::<Outcome<Vec<_>>>()?;
        let special = |name: &String, kind: u32| json!({"SpecialToken": {"id": name, "type_id": kind}});
        let around = |sequence: &str, kind: u32| {
            let mut all: Vec<Value> = prefix.iter().map(|name| special(name, kind)).collect();
            all.push(json!({"Sequence": {"id": sequence, "type_id": kind}}));
            all.extend(suffix.iter().map(|name| special(name, kind)));
            all
        };
        let mut specials = Map::new();
        for (name, id) in prefix.iter().zip(&self.prefix).chain(suffix.iter().zip(&self.suffix)) {
            specials.insert(name.clone(), json!({"id": name, "ids": [id], "tokens": [name]}));
        }
        let pair: Vec<Value> = around("A", 0).into_iter().chain(around("B", 1)).collect();
        Ok(json!({"type": "TemplateProcessing", "single": around("A", 0), "pair": pair, "special_tokens": specials}))
    }

    /// What the `tokenizers` crate makes of the ids: the reference that `pieces` is tested against.
    pub fn decode(&self, ids: &[u32], skip_special: bool) -> Outcome<String> {
        self.inner.decode(ids, skip_special).map_err(|e| invalid("decode", e))
    }
}

fn promised_by_json(values: &[Value]) -> Outcome<Vec<Promised>> {
    values
        .iter()
        .map(|value| {
            let id = value["id"].as_u64().and_then(|id| u32::try_from(id).ok());
            let id = id.ok_or_else(|| Failure::Invalid(format!("tokenizer.json: added token without id: {value}")))?;
            Ok(Promised { id, token: added_token(value)? })
        })
        .collect()
}

/// Tokens that only `tokenizer_config.json` names, by ascending id.
fn promised_by_config(config: &Config, known: &[Promised]) -> Outcome<Vec<Promised>> {
    let mut extra = Vec::new();
    for (id, value) in config.added_tokens_decoder.iter().flatten() {
        let token = added_token(value)?;
        if known.iter().any(|other| other.token.content == token.content) {
            continue;
        }
        let id = id.parse().map_err(|e| invalid("tokenizer_config.json: added_tokens_decoder", e))?;
        extra.push(Promised { id, token });
    }
    extra.sort_by_key(|promise| promise.id);
    Ok(extra)
}

fn added_token(value: &Value) -> Outcome<AddedToken> {
    let content = value["content"].as_str();
    let content = content.ok_or_else(|| Failure::Invalid(format!("added token without content: {value}")))?;
    let flag = |key: &str, default: bool| value[key].as_bool().unwrap_or(default);
    let special = flag("special", false);
    Ok(AddedToken::from(content, special)
        .normalized(flag("normalized", !special))
        .lstrip(flag("lstrip", false))
        .rstrip(flag("rstrip", false))
        .single_word(flag("single_word", false)))
}

fn add_all(inner: &mut Tokenizer, tokens: &[Promised]) -> Outcome<()> {
    if tokens.is_empty() {
        return Ok(());
    }
    let tokens = tokens.iter().map(|promise| promise.token.clone());
    inner.add_tokens(tokens).map(|_| ()).map_err(|e| invalid("added tokens", e))
}

fn keeps_promises(inner: &Tokenizer, promised: &[Promised]) -> bool {
    promised.iter().all(|promise| inner.token_to_id(&promise.token.content) == Some(promise.id))
}

/// The crate numbers added tokens that the model lacks from the end of its vocabulary. Where the file promises other
/// ids, they are written into the model's vocabulary first.
fn repaired(json: &[u8], promised: &[Promised]) -> Outcome<Tokenizer> {
    let mut file: Value = serde_json::from_slice(json).map_err(|e| invalid("tokenizer.json", e))?;
    let missing = |promise: &Promised| {
        Failure::Invalid(format!(
            "tokenizer.json: the added token '{}' cannot have the id {}",
            promise.token.content, promise.id
        ))
    };
    let Some(vocab) = file["model"]["vocab"].as_object_mut() else {
        return Err(Failure::Unsupported(
            "tokenizer.json: added tokens outside a vocabulary that is not a table".to_string(),
        ));
    };
    for promise in promised {
        vocab.insert(promise.token.content.clone(), Value::from(promise.id));
    }
    let bytes = serde_json::to_vec(&file).map_err(|e| invalid("tokenizer.json", e))?;
    let mut inner = Tokenizer::from_bytes(bytes).map_err(|e| invalid("tokenizer.json", e))?;
    add_all(&mut inner, promised)?;
    match promised.iter().find(|p| inner.token_to_id(&p.token.content) != Some(p.id)) {
        Some(promise) => Err(missing(promise)),
        None => Ok(inner),
    }
}

/// The special tokens around a text: those of the file's post-processor, unless the configuration names `add_bos_token`
/// or `add_eos_token`, which then decide alone (as in transformers 5).
fn surroundings(inner: &Tokenizer, config: &Config) -> Outcome<(Vec<u32>, Vec<u32>)> {
    let explicit = config.add_bos_token.is_some() || config.add_eos_token.is_some();
    if explicit || inner.get_post_processor().is_none() {
        let id = |wanted: Option<bool>, token: &Value| match wanted {
            Some(true) => token_text(token).and_then(|text| inner.token_to_id(text)).into_iter().collect(),
            _ => Vec::new(),
        };
        return Ok((id(config.add_bos_token, &config.bos_token), id(config.add_eos_token, &config.eos_token)));
    }
    const MARK: u32 = u32::MAX;
    let mark = Encoding::from_tokens(vec![Token::new(MARK, "a".to_string(), (0, 1))], 0);
    let processor = inner.get_post_processor().expect("checked above");
    let processed = processor.process(mark, None, true).map_err(|e| invalid("post-processor", e))?;
    let ids = processed.get_ids();
    let at = ids.iter().position(|id| *id == MARK);
    let at = at.ok_or_else(|| Failure::Unsupported("tokenizer.json: a post-processor that drops text".to_string()))?;
    Ok((ids[..at].to_vec(), ids[at + 1..].to_vec()))
}

/// `bos_token` and its like are a string or an object with `content`.
fn token_text(token: &Value) -> Option<&str> {
    token.as_str().or_else(|| token["content"].as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A byte-level tokenizer of the letters a to d, a space and a few added tokens.
    fn file(added: Value) -> Vec<u8> {
        json!({
            "version": "1.0", "added_tokens": added, "normalizer": null,
            "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true},
            "post_processor": null,
            "decoder": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true},
            "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "c": 2, "d": 3, "<": 4, ">": 5, "\u{120}": 6},
                "merges": []}
        })
        .to_string()
        .into_bytes()
    }

    fn special(id: u32, content: &str) -> Value {
        json!({"id": id, "content": content, "special": true, "normalized": false, "single_word": false,
            "lstrip": false, "rstrip": false})
    }

    #[test]
    fn special_tokens_in_text() {
        let tokenizer = TextTokenizer::from_json(&file(json!([special(7, "<a>")])), b"").unwrap();
        let ids = |text: &str, specials| tokenizer.encode(text, false, specials).unwrap();
        assert_eq!(ids("b<a>", Specials::Parsed), [1, 7]);
        assert_eq!(ids("b<a>", Specials::Plain), [1, 4, 0, 5]);
        assert_eq!(ids("b<a><\u{FDD2}a>c", Specials::UnlessMarked), [1, 7, 4, 0, 5, 2]);
    }

    #[test]
    fn marks_guard_special_tokens_that_are_looked_for_after_normalising() {
        let mut token = special(7, "<a>");
        token["normalized"] = json!(true);
        let tokenizer = TextTokenizer::from_json(&file(json!([token])), b"").unwrap();
        let ids = tokenizer.encode("b<a><\u{FDD2}a>c", false, Specials::UnlessMarked).unwrap();
        assert_eq!(ids, [1, 7, 4, 0, 5, 2]);
    }

    #[test]
    fn added_tokens_keep_their_ids_across_gaps() {
        let added = json!([special(20, "<a>"), special(9, "<b>")]);
        let tokenizer = TextTokenizer::from_json(&file(added), b"").unwrap();
        assert_eq!(tokenizer.encode("<a>c<b>", false, Specials::Parsed).unwrap(), [20, 2, 9]);
        assert_eq!(tokenizer.pieces().len(), 21);
        assert_eq!(tokenizer.pieces().piece(20), b"<a>");
        assert_eq!(tokenizer.pieces().piece(15), b"");
    }

    #[test]
    fn tokens_of_the_configuration_are_added() {
        let config = json!({"added_tokens_decoder": {"7": {"content": "<c>", "special": true}},
            "add_bos_token": true, "bos_token": {"content": "<c>"}, "eos_token": "<c>"});
        let tokenizer = TextTokenizer::from_json(&file(json!([])), config.to_string().as_bytes()).unwrap();
        assert_eq!(tokenizer.encode("a<c>", true, Specials::Parsed).unwrap(), [7, 0, 7]);
        assert_eq!(tokenizer.encode("a<c>", false, Specials::Parsed).unwrap(), [0, 7]);
    }

    #[test]
    fn its_json_keeps_what_stands_around_a_text() {
        let config = json!({"add_bos_token": true, "add_eos_token": true, "bos_token": "<a>", "eos_token": "<b>"});
        let added = json!([special(7, "<a>"), special(8, "<b>")]);
        let tokenizer = TextTokenizer::from_json(&file(added), config.to_string().as_bytes()).unwrap();
        let again = TextTokenizer::from_json(tokenizer.to_json().unwrap().as_bytes(), b"").unwrap();
        assert_eq!(again.encode("bad", true, Specials::Parsed).unwrap(), [7, 1, 0, 3, 8]);
        assert_eq!(again.encode("bad", false, Specials::Parsed).unwrap(), [1, 0, 3]);
        let plain = TextTokenizer::from_json(&file(json!([special(7, "<a>")])), b"").unwrap();
        let again = TextTokenizer::from_json(plain.to_json().unwrap().as_bytes(), b"").unwrap();
        assert_eq!(again.encode("b<a>", true, Specials::Parsed).unwrap(), [1, 7]);
    }
}
