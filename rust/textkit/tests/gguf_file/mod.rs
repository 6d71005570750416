//! Just enough of a GGUF reader to take the vocabulary out of a file.

use std::collections::HashMap;
use std::path::Path;

use textkit::gguf_vocab::GgufVocab;

pub enum Item {
    Number(f64),
    Text(String),
    Numbers(Vec<f64>),
    Texts(Vec<String>),
}

struct Cursor<'a>(&'a [u8]);

impl Cursor<'_> {
    fn take<const N: usize>(&mut self) -> [u8; N] {
        let (head, rest) = self.0.split_at(N);
        self.0 = rest;
        head.try_into().unwrap()
    }

    fn size(&mut self) -> usize {
        u64::from_le_bytes(self.take()) as usize
    }

    fn kind(&mut self) -> u32 {
        u32::from_le_bytes(self.take())
    }

    fn text(&mut self) -> String {
        let size = self.size();
        let (head, rest) = self.0.split_at(size);
        self.0 = rest;
        String::from_utf8_lossy(head).into_owned()
    }

    fn number(&mut self, kind: u32) -> f64 {
        match kind {
            0 | 7 => self.take::<1>()[0] as f64,
            1 => self.take::<1>()[0] as i8 as f64,
            2 => u16::from_le_bytes(self.take()) as f64,
            3 => i16::from_le_bytes(self.take()) as f64,
            4 => u32::from_le_bytes(self.take()) as f64,
            5 => i32::from_le_bytes(self.take()) as f64,
            6 => f32::from_le_bytes(self.take()) as f64,
            10 => u64::from_le_bytes(self.take()) as f64,
            11 => i64::from_le_bytes(self.take()) as f64,
            12 => f64::from_le_bytes(self.take()),
            other => panic!("GGUF value type {other}"),
        }
    }

    fn item(&mut self) -> Item {
        match self.kind() {
            8 => Item::Text(self.text()),
            9 => {
                let (kind, count) = (self.kind(), self.size());
                match kind {
                    8 => Item::Texts((0..count).map(|_| self.text()).collect()),
                    _ => Item::Numbers((0..count).map(|_| self.number(kind)).collect()),
                }
            }
            kind => Item::Number(self.number(kind)),
        }
    }
}

pub fn metadata(path: &Path) -> HashMap<String, Item> {
    let bytes = std::fs::read(path).unwrap();
    let mut cursor = Cursor(&bytes);
    assert_eq!(&cursor.take::<4>(), b"GGUF");
    let _version = cursor.kind();
    let (_tensors, count) = (cursor.size(), cursor.size());
    (0..count).map(|_| (cursor.text(), cursor.item())).collect()
}

pub fn vocab(path: &Path) -> GgufVocab {
    let items = metadata(path);
    let text = |key: &str| match items.get(key) {
        Some(Item::Text(text)) => text.clone(),
        _ => String::new(),
    };
    let texts = |key: &str| match items.get(key) {
        Some(Item::Texts(texts)) => texts.clone(),
        _ => Vec::new(),
    };
    let numbers = |key: &str| match items.get(key) {
        Some(Item::Numbers(numbers)) => numbers.clone(),
        _ => Vec::new(),
    };
    let number = |key: &str| match items.get(key) {
        Some(Item::Number(number)) => Some(*number),
        _ => None,
    };
    let ggml = |key: &str| format!("tokenizer.ggml.{key}");
    GgufVocab {
        model: text(&ggml("model")),
        pre: text(&ggml("pre")),
        name: text("general.name"),
        tokens: texts(&ggml("tokens")),
        token_types: numbers(&ggml("token_type")).iter().map(|x| *x as i32).collect(),
        scores: numbers(&ggml("scores")).iter().map(|x| *x as f32).collect(),
        merges: texts(&ggml("merges")),
        bos: number(&ggml("bos_token_id")).map(|x| x as u32),
        eos: number(&ggml("eos_token_id")).map(|x| x as u32),
        unk: number(&ggml("unknown_token_id")).map(|x| x as u32),
        add_bos: number(&ggml("add_bos_token")).map(|x| x != 0.0),
        add_eos: number(&ggml("add_eos_token")).map(|x| x != 0.0),
        add_space_prefix: number(&ggml("add_space_prefix")).map(|x| x != 0.0),
    }
}
