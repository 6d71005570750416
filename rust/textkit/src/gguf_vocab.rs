//! A tokenizer built from the vocabulary metadata of a GGUF file, which names its pre-tokenizer instead of carrying it.

use std::collections::HashSet;

use serde_json::json;
use tokenizers::models::bpe::BPE;
use tokenizers::{AddedToken, DecoderWrapper, NormalizerWrapper, PreTokenizerWrapper, Tokenizer};

use crate::pieces::fallback_byte;
use crate::tokenizer::TextTokenizer;
use crate::{invalid, Failure, Outcome};

/// `tokenizer.ggml.*` of a file. Arrays that the file lacks are empty.
#[derive(Debug, Default)]
pub struct GgufVocab {
    /// `tokenizer.ggml.model`: gpt2, llama or gemma4.
    pub model: String,
    /// `tokenizer.ggml.pre`
    pub pre: String,
    /// `general.name`: one family's special tokens swallow the spaces after them.
    pub name: String,
    pub tokens: Vec<String>,
    pub token_types: Vec<i32>,
    pub scores: Vec<f32>,
    pub merges: Vec<String>,
    pub bos: Option<u32>,
    pub eos: Option<u32>,
    pub unk: Option<u32>,
    pub add_bos: Option<bool>,
    pub add_eos: Option<bool>,
    pub add_space_prefix: Option<bool>,
}

const TYPE_NORMAL: i32 = 1;
const TYPE_UNKNOWN: i32 = 2;
const TYPE_CONTROL: i32 = 3;
const TYPE_USER_DEFINED: i32 = 4;
const TYPE_BYTE: i32 = 6;

/// Tokens that end a turn; files exist that mark them as ordinary ones.
const TURN_ENDS: [&str; 8] =
    ["<|eot_id|>", "<|im_end|>", "<|end|>", "<end_of_turn>", "<|endoftext|>", "<|end_of_text|>", "<EOT>", "<|eom_id|>"];

const SPACE_MARK: &str = "\u{2581}";

const GPT2: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";
const LLAMA3: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const QWEN2: &str =
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const QWEN35: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const TEKKEN: &str = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const DEEPSEEK_V3: &str = r##"[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"##;
/// Letters of the scripts with two cases, as the deepseek-llm tokenizer lists them.
const DEEPSEEK_LETTERS: &str = concat!(
    r"\s?[A-Za-z\x{B5}\x{C0}-\x{D6}\x{D8}-\x{F6}\x{F8}-\x{1BA}\x{1BC}-\x{1BF}\x{1C4}-\x{293}\x{295}-\x{2AF}",
    r"\x{370}-\x{373}\x{376}\x{377}\x{37B}-\x{37D}\x{37F}\x{386}\x{388}-\x{38A}\x{38C}\x{38E}-\x{3A1}",
    r"\x{3A3}-\x{3F5}\x{3F7}-\x{481}\x{48A}-\x{52F}\x{531}-\x{556}\x{10A0}-\x{10C5}\x{13A0}-\x{13F5}",
    r"\x{13F8}-\x{13FD}\x{1C90}-\x{1CBA}\x{1CBD}-\x{1CBF}\x{1D00}-\x{1D2B}\x{1D6B}-\x{1D77}\x{1D79}-\x{1D9A}",
    r"\x{1E00}-\x{1F15}\x{1F18}-\x{1F1D}\x{1F20}-\x{1F45}\x{1F48}-\x{1F4D}\x{1F50}-\x{1F57}\x{1F59}\x{1F5B}",
    r"\x{1F5D}\x{1F5F}-\x{1F7D}\x{1F80}-\x{1FB4}\x{1FB6}-\x{1FBC}\x{1FBE}\x{1FC2}-\x{1FC4}\x{1FC6}-\x{1FCC}",
    r"\x{1FD0}-\x{1FD3}\x{1FD6}-\x{1FDB}\x{1FE0}-\x{1FEC}\x{1FF2}-\x{1FF4}\x{1FF6}-\x{1FFC}\x{2102}\x{2107}",
    r"\x{210A}-\x{2113}\x{2115}\x{2119}-\x{211D}\x{2124}\x{2126}\x{2128}\x{212A}-\x{212D}\x{212F}-\x{2134}",
    r"\x{2139}\x{213C}-\x{213F}\x{2145}-\x{2149}\x{214E}\x{2183}\x{2184}\x{2C00}-\x{2C7B}\x{2C7E}-\x{2CE4}",
    r"\x{2CEB}-\x{2CEE}\x{2CF2}\x{2CF3}\x{A640}-\x{A66D}\x{A680}-\x{A69B}\x{A722}-\x{A76F}\x{A771}-\x{A787}",
    r"\x{A78B}-\x{A78E}\x{AB70}-\x{ABBF}\x{FB00}-\x{FB06}\x{FB13}-\x{FB17}\x{FF21}-\x{FF3A}\x{FF41}-\x{FF5A}",
    r"\x{10400}-\x{1044F}\x{104B0}-\x{104D3}\x{104D8}-\x{104FB}\x{10C80}-\x{10CB2}\x{10CC0}-\x{10CF2}",
    r"\x{118A0}-\x{118DF}\x{1E900}-\x{1E943}]+",
);

/// How one named pre-tokenizer cuts a text: each pattern in turn cuts what the earlier ones left.
struct PreTokenizer {
    patterns: Vec<&'static str>,
    ignore_merges: bool,
    add_bos: bool,
}

fn pre_tokenizer(name: &str) -> Outcome<PreTokenizer> {
    let cuts =
        |patterns: &[&'static str]| PreTokenizer { patterns: patterns.to_vec(), ignore_merges: false, add_bos: false };
    let whole_words =
        |pattern: &'static str| PreTokenizer { patterns: vec![pattern], ignore_merges: true, add_bos: true };
    Ok(match name {
        "llama3" | "llama-v3" | "llama-bpe" | "falcon3" | "falcon-h1" | "pixtral" | "lfm2" => whole_words(LLAMA3),
        "tekken" => whole_words(TEKKEN),
        "smaug-bpe" | "dbrx" | "chatglm-bpe" => cuts(&[LLAMA3]),
        "glm4" => PreTokenizer { add_bos: false, ..whole_words(LLAMA3) },
        "gpt-2" | "phi-2" | "mpt" | "olmo" | "exaone4" | "mellum" => cuts(&[GPT2]),
        "starcoder" | "refact" | "command-r" | "smollm" | "codeshell" | "exaone" => cuts(&[r"\p{N}", GPT2]),
        "qwen2" | "deepseek-r1-qwen" | "stablelm2" | "hunyuan" | "megrez" => cuts(&[QWEN2]),
        "qwen35" => cuts(&[QWEN35]),
        "falcon" => cuts(&[r"[\p{P}\$\+<=>\^~\|`]+", GPT2, "[0-9][0-9][0-9]"]),
        "deepseek-llm" => cuts(&[
            r"[\r\n]",
            DEEPSEEK_LETTERS,
            r"\s?[!-/:-~\x{FF01}-\x{FF0F}\x{FF1A}-\x{FF5E}\x{2018}-\x{201F}\x{3000}-\x{3002}]+",
            r"\s+$",
            r"[\x{4E00}-\x{9FA5}\x{800}-\x{4E00}\x{AC00}-\x{D7FF}]+",
            r"\p{N}",
        ]),
        "deepseek-coder" => cuts(&[
            r"[\r\n]",
            r"\s?\p{L}+",
            r"\s?\p{P}+",
            r"[\x{4E00}-\x{9FA5}\x{800}-\x{4E00}\x{AC00}-\x{D7FF}]+",
            r"\p{N}",
        ]),
        "deepseek-v3" => cuts(&[r"\p{N}{1,3}", r"[\x{4E00}-\x{9FA5}\x{3040}-\x{309F}\x{30A0}-\x{30FF}]+", DEEPSEEK_V3]),
        other => {
            return Err(Failure::Unsupported(format!(
                "the pre-tokenizer '{other}' (tokenizer.ggml.pre) is not known here"
            )))
        }
    })
}

impl GgufVocab {
    pub fn build(&self) -> Outcome<TextTokenizer> {
        self.check()?;
        match self.model.as_str() {
            "gpt2" => self.build_byte_level(),
            "gemma4" => self.build_gemma4(),
            "llama" => self.build_sentencepiece(),
            other => Err(Failure::Unsupported(format!(
                "the vocabulary kind '{other}' (tokenizer.ggml.model) is not known here"
            ))),
        }
    }

    fn check(&self) -> Outcome<()> {
        let count = self.tokens.len();
        let wrong =
            |what: &str, got: usize| Err(Failure::Invalid(format!("{what} has {got} entries for {count} tokens")));
        if count == 0 {
            return Err(Failure::Invalid("the file has no tokens".to_string()));
        }
        if !self.token_types.is_empty() && self.token_types.len() != count {
            return wrong("tokenizer.ggml.token_type", self.token_types.len());
        }
        if !self.scores.is_empty() && self.scores.len() != count {
            return wrong("tokenizer.ggml.scores", self.scores.len());
        }
        Ok(())
    }

    fn build_byte_level(&self) -> Outcome<TextTokenizer> {
        let pre = pre_tokenizer(&self.pre)?;
        let model = self.bpe(self.listed_merges(), false, pre.ignore_merges)?;
        let mut steps: Vec<_> = pre.patterns.iter().map(|pattern| split(pattern)).collect();
        steps.push(json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false}));
        let mut inner = Tokenizer::new(model);
        inner.with_pre_tokenizer(Some(part::<PreTokenizerWrapper>(
            json!({"type": "Sequence", "pretokenizers": steps}),
        )?));
        let decoder = json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false});
        inner.with_decoder(Some(part::<DecoderWrapper>(decoder)?));
        self.finish(inner, pre.add_bos)
    }

    fn build_gemma4(&self) -> Outcome<TextTokenizer> {
        let mut inner = Tokenizer::new(self.bpe(self.listed_merges(), true, false)?);
        let normalizer = json!({"type": "Replace", "pattern": {"String": " "}, "content": SPACE_MARK});
        inner.with_normalizer(Some(part::<NormalizerWrapper>(normalizer)?)).map_err(|e| invalid("normalizer", e))?;
        inner.with_pre_tokenizer(Some(part::<PreTokenizerWrapper>(split(r"[^\n]+|[\n]+"))?));
        inner.with_decoder(Some(part::<DecoderWrapper>(sentencepiece_decoder(false))?));
        // A run of newlines that is a token of its own is taken whole.
        let newlines = self.tokens.iter().filter(|t| !t.is_empty() && t.bytes().all(|b| b == b'\n'));
        let newlines: Vec<_> = newlines.map(|t| AddedToken::from(t.as_str(), false).normalized(false)).collect();
        inner.add_tokens(newlines).map_err(|e| invalid("added tokens", e))?;
        self.finish(inner, true)
    }

    fn build_sentencepiece(&self) -> Outcome<TextTokenizer> {
        let prefix = self.add_space_prefix.unwrap_or(true);
        let mut inner = Tokenizer::new(self.bpe(self.merges_by_score(), true, false)?);
        let mut steps = Vec::new();
        if prefix {
            steps.push(json!({"type": "Prepend", "prepend": SPACE_MARK}));
        }
        steps.push(json!({"type": "Replace", "pattern": {"String": " "}, "content": SPACE_MARK}));
        let normalizer = json!({"type": "Sequence", "normalizers": steps});
        inner.with_normalizer(Some(part::<NormalizerWrapper>(normalizer)?)).map_err(|e| invalid("normalizer", e))?;
        inner.with_decoder(Some(part::<DecoderWrapper>(sentencepiece_decoder(prefix))?));
        self.finish(inner, true)
    }

    fn finish(&self, mut inner: Tokenizer, add_bos_default: bool) -> Outcome<TextTokenizer> {
        inner.add_tokens(self.added_tokens()).map_err(|e| invalid("added tokens", e))?;
        let around = |wanted: bool, id: Option<u32>| match wanted {
            true => id.into_iter().collect(),
            false => Vec::new(),
        };
        let prefix = around(self.add_bos.unwrap_or(add_bos_default), self.bos);
        let suffix = around(self.add_eos.unwrap_or(false), self.eos);
        TextTokenizer::new(inner, prefix, suffix)
    }

    fn bpe(&self, merges: Vec<(String, String)>, byte_fallback: bool, ignore_merges: bool) -> Outcome<BPE> {
        let vocab: tokenizers::models::bpe::Vocab =
            self.tokens.iter().enumerate().map(|(id, token)| (self.spelling(id, token), id as u32)).collect();
        let mut builder = BPE::builder()
            .vocab_and_merges(vocab, merges)
            .byte_fallback(byte_fallback)
            .fuse_unk(byte_fallback)
            .ignore_merges(ignore_merges);
        if let Some(unk) = self.unk.and_then(|id| self.tokens.get(id as usize)).filter(|_| byte_fallback) {
            builder = builder.unk_token(unk.clone());
        }
        builder.build().map_err(|e| invalid("merges", e))
    }

    /// Empty tokens get a name of their own, as they would share one id otherwise.
    fn spelling(&self, id: usize, token: &str) -> String {
        match token.is_empty() {
            true => format!("[EMPTY_{id}]"),
            false => token.to_string(),
        }
    }

    fn listed_merges(&self) -> Vec<(String, String)> {
        let known: HashSet<&str> = self.tokens.iter().map(String::as_str).collect();
        let cut = |merge: &String| {
            let at = merge.char_indices().skip(1).find(|(_, c)| *c == ' ')?.0;
            let (left, right) = (&merge[..at], &merge[at + 1..]);
            let joined = format!("{left}{right}");
            let usable = [left, right, joined.as_str()].iter().all(|part| known.contains(part));
            usable.then(|| (left.to_string(), right.to_string()))
        };
        self.merges.iter().filter_map(cut).collect()
    }

    /// SentencePiece joins the pair whose result has the best score: the same as merges ordered by that score.
    fn merges_by_score(&self) -> Vec<(String, String)> {
        let known: HashSet<&str> = self.tokens.iter().map(String::as_str).collect();
        let mut scored = Vec::new();
        for (id, token) in self.tokens.iter().enumerate() {
            if matches!(self.kind(id), TYPE_CONTROL | TYPE_UNKNOWN | TYPE_BYTE) {
                continue;
            }
            let score = self.scores.get(id).copied().unwrap_or(0.0);
            for (at, _) in token.char_indices().skip(1) {
                let (left, right) = token.split_at(at);
                if known.contains(left) && known.contains(right) {
                    scored.push((score, left, right));
                }
            }
        }
        scored.sort_by(|a, b| b.0.total_cmp(&a.0));
        scored.into_iter().map(|(_, left, right)| (left.to_string(), right.to_string())).collect()
    }

    fn kind(&self, id: usize) -> i32 {
        self.token_types.get(id).copied().unwrap_or(TYPE_NORMAL)
    }

    fn added_tokens(&self) -> Vec<AddedToken> {
        let phi3 = ["phi-3", "phi3"].iter().any(|name| self.name.to_lowercase().contains(name));
        let keeps_spaces = ["<unk>", "<s>", "<|endoftext|>"];
        let mut added = Vec::new();
        for (id, token) in self.tokens.iter().enumerate() {
            let control = matches!(self.kind(id), TYPE_CONTROL | TYPE_UNKNOWN);
            let ends = self.kind(id) == TYPE_NORMAL && TURN_ENDS.contains(&token.as_str());
            if token.is_empty() || !(control || ends || self.kind(id) == TYPE_USER_DEFINED) {
                continue;
            }
            debug_assert!(fallback_byte(token).is_none() || !control);
            let rstrip = phi3 && !keeps_spaces.contains(&token.as_str());
            added.push(AddedToken::from(token.as_str(), control || ends).normalized(false).rstrip(rstrip));
        }
        added
    }
}

fn split(pattern: &str) -> serde_json::Value {
    json!({"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": false})
}

fn sentencepiece_decoder(strip: bool) -> serde_json::Value {
    let mut steps = vec![
        json!({"type": "Replace", "pattern": {"String": SPACE_MARK}, "content": " "}),
        json!({"type": "ByteFallback"}),
        json!({"type": "Fuse"}),
    ];
    if strip {
        steps.push(json!({"type": "Strip", "content": " ", "start": 1, "stop": 0}));
    }
    json!({"type": "Sequence", "decoders": steps})
}

fn part<T: serde::de::DeserializeOwned>(json: serde_json::Value) -> Outcome<T> {
    serde_json::from_value(json).map_err(|e| invalid("tokenizer part", e))
}
