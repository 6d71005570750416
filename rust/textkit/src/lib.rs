//! Tokenizers, chat templates and grammars for Penstock, behind the C ABI of `textkit.h`.
//!
//! One file per subject; `ffi.rs` is the only one with `unsafe`.

#![deny(unsafe_code)]

mod ffi;
pub mod gguf_vocab;
pub mod grammar;
pub mod matcher;
pub mod pieces;
pub mod python;
pub mod schema;
mod schema_cases;
mod schema_not;
mod schema_refs;
pub mod template;
pub mod tokenizer;
pub mod vocabulary;

/// What a call can fail with; `ffi` turns it into a status code and the text of the last error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// A file or argument that cannot be used.
    Invalid(String),
    /// A file that is understood and not supported.
    Unsupported(String),
    /// The template refused the conversation, or failed while rendering it; a grammar cannot be compiled or followed.
    Refused(String),
}

impl Failure {
    pub fn text(&self) -> &str {
        match self {
            Failure::Invalid(text) | Failure::Unsupported(text) | Failure::Refused(text) => text,
        }
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.text())
    }
}

pub type Outcome<T> = Result<T, Failure>;

/// An error of one of the libraries as `Invalid`, with what was being done in front of it.
pub(crate) fn invalid(what: &str, error: impl std::fmt::Display) -> Failure {
    Failure::Invalid(format!("{what}: {error}"))
}
