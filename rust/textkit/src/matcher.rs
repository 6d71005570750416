//! Where one answer stands in its grammar: which tokens may follow, and what did.

use llguidance::TokenParser;

use crate::vocabulary::GrammarEnv;
use crate::{Failure, Outcome};

/// Behind what was consumed so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// More must follow.
    Open,
    /// The answer may end here.
    Accepting,
    /// It is complete, and nothing can follow.
    Complete,
}

/// One thread at a time. After a failure every call fails.
pub struct Matcher {
    inner: llguidance::Matcher,
    vocab_size: usize,
}

impl Matcher {
    pub(crate) fn new(env: &GrammarEnv, parser: anyhow::Result<TokenParser>) -> Outcome<Matcher> {
        let inner = llguidance::Matcher::new(parser);
        match inner.get_error() {
            Some(error) => Err(Failure::Refused(error)),
            None => Ok(Matcher { inner, vocab_size: env.vocab_size() }),
        }
    }

    /// Shares nothing that changes with the original.
    pub fn copy(&self) -> Matcher {
        Matcher { inner: self.inner.deep_clone(), vocab_size: self.vocab_size }
    }

    /// The tokens that may follow: bit t % 32 of words[t / 32]. The ids that end an answer are among them where it may
    /// end. Words behind the vocabulary become 0.
    pub fn mask(&mut self, words: &mut [u32]) -> Outcome<()> {
        let mask = self.inner.compute_mask_or_eos().map_err(failed)?;
        words.fill(0);
        let count = self.vocab_size.div_ceil(32).min(words.len());
        words[..count].copy_from_slice(&mask.as_slice()[..count]);
        Ok(())
    }

    pub fn consume(&mut self, tokens: &[u32]) -> Outcome<()> {
        self.inner.consume_tokens(tokens).map_err(failed)
    }

    /// How many of the tokens may follow, from the first.
    pub fn validate(&mut self, tokens: &[u32]) -> Outcome<usize> {
        if self.inner.is_stopped() {
            return match self.inner.get_error() {
                Some(error) => Err(failed(error)),
                None => Ok(0),
            };
        }
        let known = tokens.iter().take_while(|token| (**token as usize) < self.vocab_size).count();
        self.inner.validate_tokens(&tokens[..known]).map_err(failed)
    }

    pub fn rollback(&mut self, count: usize) -> Outcome<()> {
        self.inner.rollback(count).map_err(failed)
    }

    pub fn state(&mut self) -> Outcome<State> {
        if let Some(error) = self.inner.get_error() {
            return Err(failed(error));
        }
        if self.inner.is_stopped() {
            return Ok(State::Complete);
        }
        let accepting = self.inner.is_accepting().map_err(failed)?;
        Ok(if accepting { State::Accepting } else { State::Open })
    }
}

fn failed(error: impl std::fmt::Display) -> Failure {
    Failure::Refused(format!("{error}").replace("\n<non-verbose/>", ""))
}
