//! The bytes that each token id adds to a text.
//!
//! A decoder of the `tokenizers` crate works on whole sequences; here it is reduced to one byte string per id and a rule
//! for the first token, so that text can be produced token by token without decoding everything again.

use serde_json::Value;
use tokenizers::{DecoderWrapper, Tokenizer};

use crate::{Failure, Outcome};

/// What happens to spaces at the start of a decoded text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeadingSpace {
    Keep,
    /// The first space of the text goes (`Strip` after `Fuse`).
    StripOne,
    /// All spaces at the start of the first token go (`Metaspace`).
    StripFirstToken,
}

/// Bits of `Pieces::flags`.
pub const FLAG_SPECIAL: u8 = 1;
pub const FLAG_KNOWN: u8 = 2;

#[derive(Debug)]
pub struct Pieces {
    pub bytes: Vec<u8>,
    /// [vocab + 1], where each piece starts in `bytes`.
    pub offsets: Vec<u64>,
    /// [vocab]
    pub flags: Vec<u8>,
    pub leading: LeadingSpace,
}

impl Pieces {
    pub fn of(tokenizer: &Tokenizer) -> Outcome<Pieces> {
        let rule = Rule::of(tokenizer.get_decoder())?;
        let added = tokenizer.get_added_vocabulary();
        let count = tokenizer.get_vocab_size(true);
        let mut pieces = Pieces { bytes: Vec::new(), offsets: vec![0], flags: Vec::new(), leading: rule.leading };
        let (mut found, mut id) = (0, 0u32);
        // Ids may have holes (padding rows of the embedding), but not endless ones.
        while found < count && (id as usize) < count + (1 << 20) {
            match tokenizer.id_to_token(id) {
                Some(token) => {
                    rule.append(&token, &mut pieces.bytes);
                    let special = added.is_special_token(&token);
                    pieces.flags.push(FLAG_KNOWN | if special { FLAG_SPECIAL } else { 0 });
                    found += 1;
                }
                None => pieces.flags.push(0),
            }
            pieces.offsets.push(pieces.bytes.len() as u64);
            id += 1;
        }
        Ok(pieces)
    }

    pub fn len(&self) -> usize {
        self.flags.len()
    }

    pub fn is_empty(&self) -> bool {
        self.flags.is_empty()
    }

    pub fn piece(&self, id: u32) -> &[u8] {
        let id = id as usize;
        if id >= self.len() {
            return &[];
        }
        &self.bytes[self.offsets[id] as usize..self.offsets[id + 1] as usize]
    }
}

enum Step {
    Replace(String, String),
    StripStart(char, usize),
    ByteFallback,
    ByteLevel,
    WordPiece(String, bool),
}

struct Rule {
    steps: Vec<Step>,
    leading: LeadingSpace,
}

impl Rule {
    fn of(decoder: Option<&DecoderWrapper>) -> Outcome<Rule> {
        let mut rule = Rule { steps: Vec::new(), leading: LeadingSpace::Keep };
        match decoder {
            // Without a decoder the crate joins tokens with spaces.
            None => {
                rule.steps.push(Step::WordPiece(String::new(), false));
                rule.leading = LeadingSpace::StripOne;
            }
            Some(decoder) => {
                let json = serde_json::to_value(decoder).map_err(|e| crate::invalid("decoder", e))?;
                let mut fused = false;
                rule.add(&json, &mut fused)?;
            }
        }
        Ok(rule)
    }

    fn add(&mut self, json: &Value, fused: &mut bool) -> Outcome<()> {
        let kind = json["type"].as_str().unwrap_or("");
        let text = |key: &str| json[key].as_str().unwrap_or("").to_string();
        match kind {
            "Sequence" => {
                for step in json["decoders"].as_array().into_iter().flatten() {
                    self.add(step, fused)?;
                }
            }
            "ByteLevel" => self.steps.push(Step::ByteLevel),
            "ByteFallback" => self.steps.push(Step::ByteFallback),
            "Fuse" => *fused = true,
            "Replace" => match json["pattern"]["String"].as_str() {
                Some(pattern) => self.steps.push(Step::Replace(pattern.to_string(), text("content"))),
                None => return unsupported("a Replace decoder with a regular expression"),
            },
            "Strip" => self.add_strip(json, *fused)?,
            "Metaspace" => {
                self.steps.push(Step::Replace(text("replacement"), " ".to_string()));
                if json["prepend_scheme"].as_str() != Some("never") {
                    self.leading = LeadingSpace::StripFirstToken;
                }
            }
            "WordPiece" => {
                let cleanup = json["cleanup"].as_bool().unwrap_or(false);
                self.steps.push(Step::WordPiece(text("prefix"), cleanup));
                self.leading = LeadingSpace::StripOne;
            }
            "BPEDecoder" => self.steps.push(Step::Replace(text("suffix"), " ".to_string())),
            other => return unsupported(&format!("the decoder '{other}'")),
        }
        Ok(())
    }

    fn add_strip(&mut self, json: &Value, fused: bool) -> Outcome<()> {
        let content = json["content"].as_str().and_then(|s| s.chars().next()).unwrap_or(' ');
        let (start, stop) = (json["start"].as_u64().unwrap_or(0), json["stop"].as_u64().unwrap_or(0));
        match (start, stop, fused) {
            (0, 0, _) => {}
            (1, 0, true) if content == ' ' => self.leading = LeadingSpace::StripOne,
            (_, 0, false) => self.steps.push(Step::StripStart(content, start as usize)),
            _ => return unsupported("a Strip decoder other than one space at the start"),
        }
        Ok(())
    }

    fn append(&self, token: &str, out: &mut Vec<u8>) {
        let mut text = token.to_string();
        for step in &self.steps {
            match step {
                Step::Replace(from, to) if !from.is_empty() => text = text.replace(from.as_str(), to),
                Step::Replace(..) => {}
                Step::StripStart(content, count) => {
                    let cut: usize = text.chars().take(*count).take_while(|c| c == content).map(char::len_utf8).sum();
                    text.drain(..cut);
                }
                Step::ByteFallback => {
                    if let Some(byte) = fallback_byte(&text) {
                        out.push(byte);
                        return;
                    }
                }
                Step::ByteLevel => {
                    match text.chars().map(byte_of_char).collect::<Option<Vec<u8>>>() {
                        Some(bytes) => out.extend(bytes),
                        None => out.extend(text.as_bytes()),
                    }
                    return;
                }
                Step::WordPiece(prefix, cleanup) => text = word_piece(&text, prefix, *cleanup),
            }
        }
        out.extend(text.as_bytes());
    }
}

fn unsupported<T>(what: &str) -> Outcome<T> {
    Err(Failure::Unsupported(format!("this tokenizer needs {what}")))
}

fn word_piece(token: &str, prefix: &str, cleanup: bool) -> String {
    let joined = match token.strip_prefix(prefix) {
        Some(rest) if !prefix.is_empty() => rest.to_string(),
        _ => format!(" {token}"),
    };
    if !cleanup {
        return joined;
    }
    let pairs = [
        (" .", "."),
        (" ?", "?"),
        (" !", "!"),
        (" ,", ","),
        (" ' ", "'"),
        (" n't", "n't"),
        (" 'm", "'m"),
        (" do not", " don't"),
        (" 's", "'s"),
        (" 've", "'ve"),
        (" 're", "'re"),
    ];
    pairs.iter().fold(joined, |text, (from, to)| text.replace(from, to))
}

/// The byte that a token such as `<0xE2>` stands for.
pub fn fallback_byte(token: &str) -> Option<u8> {
    let hex = token.strip_prefix("<0x")?.strip_suffix('>')?;
    if hex.len() != 2 {
        return None;
    }
    u8::from_str_radix(hex, 16).ok()
}

/// The byte that a character of a byte-level vocabulary stands for: printable Latin-1 for itself, the other bytes in
/// order from U+0100 on.
pub fn byte_of_char(c: char) -> Option<u8> {
    let code = c as u32;
    match code {
        0x21..=0x7E | 0xA1..=0xAC | 0xAE..=0xFF => Some(code as u8),
        0x100..=0x120 => Some((code - 0x100) as u8),
        0x121..=0x142 => Some((code - 0x121 + 0x7F) as u8),
        0x143 => Some(0xAD),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn byte_level_table_covers_every_byte_once() {
        let mut seen = [0u32; 256];
        for code in 0..0x400u32 {
            if let Some(byte) = char::from_u32(code).and_then(byte_of_char) {
                seen[byte as usize] += 1;
            }
        }
        assert_eq!(seen, [1u32; 256]);
        assert_eq!(byte_of_char('\u{120}'), Some(b' '));
        assert_eq!(byte_of_char('\u{10a}'), Some(b'\n'));
    }

    #[test]
    fn fallback_tokens_are_exact() {
        assert_eq!(fallback_byte("<0xE2>"), Some(0xE2));
        assert_eq!(fallback_byte("<0xE>"), None);
        assert_eq!(fallback_byte("<0xE2"), None);
        assert_eq!(fallback_byte("<0xZZ>"), None);
    }
}
