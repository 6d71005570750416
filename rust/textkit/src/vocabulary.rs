//! A model's vocabulary as llguidance wants it: the exact bytes of every id, control tokens marked, and all the ids
//! that end an answer.

use std::sync::Arc;

use llguidance::toktrie::{ApproximateTokEnv, TokEnv, TokRxInfo, TokTrie, INVALID_TOKEN};
use llguidance::ParserFactory;

use crate::grammar::limits;
use crate::pieces::FLAG_SPECIAL;
use crate::{Failure, Outcome};

/// The trie cannot hold longer tokens; they are never allowed.
const LONGEST_TOKEN: usize = 1000;

/// Piece i is bytes[offsets[i]..offsets[i + 1]]; bit 0 of flags[i] marks control tokens. Ids of `ends` may follow where
/// a grammar may end, and nowhere else.
pub struct Vocabulary<'a> {
    pub bytes: &'a [u8],
    pub offsets: &'a [u64],
    pub flags: &'a [u8],
    pub ends: &'a [u32],
}

impl Vocabulary<'_> {
    /// Empty for ids without a token.
    fn words(&self) -> Outcome<Vec<Vec<u8>>> {
        if self.offsets.len() != self.flags.len() + 1 {
            return Err(Failure::Invalid("vocabulary: expected an offset more than flags".to_string()));
        }
        let word = |(pair, flag): (&[u64], &u8)| {
            let piece = self.bytes.get(pair[0] as usize..pair[1] as usize);
            let piece = piece.ok_or_else(|| Failure::Invalid("vocabulary: offsets outside the bytes".to_string()))?;
            // The byte 255 is the mark of control tokens, and is in no UTF-8.
            if piece.is_empty() || piece.len() > LONGEST_TOKEN || piece[0] == TokTrie::SPECIAL_TOKEN_MARKER {
                return Ok(Vec::new());
            }
            let mark = (flag & FLAG_SPECIAL != 0).then_some(TokTrie::SPECIAL_TOKEN_MARKER);
            Ok(mark.into_iter().chain(piece.iter().copied()).collect())
        };
        self.offsets.windows(2).zip(self.flags).map(word).collect()
    }

    fn trie(&self) -> Outcome<TokTrie> {
        let words = self.words()?;
        if let Some(id) = self.ends.iter().find(|id| **id as usize >= words.len()) {
            return Err(Failure::Invalid(format!("vocabulary: the end {id} is not in it")));
        }
        let end = self.ends.first().copied().unwrap_or(INVALID_TOKEN);
        let trie = TokTrie::from(&TokRxInfo::new(words.len() as u32, end), &words);
        Ok(if self.ends.is_empty() { trie } else { trie.with_eos_tokens(self.ends) })
    }
}

/// What all grammars of one model share. Any thread.
pub struct GrammarEnv {
    pub(crate) factory: ParserFactory,
}

impl GrammarEnv {
    pub fn new(vocabulary: &Vocabulary) -> Outcome<GrammarEnv> {
        let env: TokEnv = Arc::new(ApproximateTokEnv::new(vocabulary.trie()?));
        let mut factory = ParserFactory::new_simple(&env).map_err(|e| crate::invalid("vocabulary", e))?;
        factory.quiet();
        *factory.limits_mut() = limits();
        Ok(GrammarEnv { factory })
    }

    pub fn vocab_size(&self) -> usize {
        self.factory.tok_env().tok_trie().vocab_size()
    }

    /// Ids whose bytes joined are `text`: the longest tokens first, not what a tokenizer makes of it. Control tokens
    /// are never among them.
    pub fn cover(&self, text: &[u8]) -> Vec<u32> {
        self.factory.tok_env().tok_trie().greedy_tokenize(text)
    }
}
