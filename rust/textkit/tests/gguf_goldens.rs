//! The vocabularies that llama.cpp carries with the ids that the original tokenizers give (`.inp` and `.out`).

mod gguf_file;

use std::path::PathBuf;

use textkit::tokenizer::{Specials, TextTokenizer};

const VOCABULARIES: [&str; 14] = [
    "command-r",
    "deepseek-coder",
    "deepseek-llm",
    "falcon",
    "gemma-4",
    "gpt-2",
    "llama-bpe",
    "llama-spm",
    "mpt",
    "phi-3",
    "qwen2",
    "qwen35",
    "refact",
    "starcoder",
];

/// The folder that `tools/fetch_test_data.py` fills.
fn models_dir() -> Option<PathBuf> {
    let root = std::env::var_os("PENSTOCK_TEST_DATA")
        .map(PathBuf::from)
        .or_else(|| std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache/penstock/test-data")))?;
    let models = root.join("llama_cpp_python-0.3.36/vendor/llama.cpp/models");
    models.is_dir().then_some(models)
}

#[test]
fn ids_equal_the_goldens() {
    let Some(models) = models_dir() else {
        eprintln!("skipped {} vocabularies: run tools/fetch_test_data.py", VOCABULARIES.len());
        return;
    };
    let mut wrong = Vec::new();
    let mut texts = 0;
    for name in VOCABULARIES {
        let path = models.join(format!("ggml-vocab-{name}.gguf"));
        let built = gguf_file::vocab(&path).build().unwrap_or_else(|e| panic!("{name}: {e}"));
        // Written as a tokenizer.json and read again, it must be the same tokenizer.
        let tokenizer = TextTokenizer::from_json(built.to_json().unwrap().as_bytes(), b"").unwrap();
        assert_eq!(tokenizer.pieces().len(), built.pieces().len(), "{name}");
        let read = |kind: &str| std::fs::read_to_string(format!("{}.{kind}", path.display())).unwrap();
        let (inputs, outputs) = (read("inp"), read("out"));
        let inputs: Vec<&str> = inputs.split("\n__ggml_vocab_test__\n").collect();
        for (input, output) in inputs.iter().zip(outputs.lines()) {
            let want: Vec<u32> = output.split_whitespace().map(|id| id.parse().unwrap()).collect();
            let got = built.encode(input, false, Specials::Plain).unwrap();
            for (special, mode) in [(false, Specials::Plain), (true, Specials::Parsed)] {
                let again = tokenizer.encode(input, special, mode).unwrap();
                assert_eq!(again, built.encode(input, special, mode).unwrap(), "{name}: {input:?}");
            }
            texts += 1;
            if got != want {
                wrong.push(format!("{name}: {input:?}\n  want {want:?}\n  got  {got:?}"));
            }
        }
    }
    assert!(texts > 600, "only {texts} texts");
    assert!(wrong.is_empty(), "{} of {texts} texts differ:\n{}", wrong.len(), wrong.join("\n"));
}
