// How sequences use the prefix index: what one may begin with, what it leaves to others. Decides what is
// shared: by model, salt, and what the executor promises of its bits. Engine thread.
#pragma once

#include "cache/prefix_index.h"
#include "engine/sequence.h"

namespace penstock::engine {

class PrefixCache {
 public:
  /// `groups` must outlive it. `on` false: nothing is ever found or kept.
  PrefixCache(cache::Groups& groups, const exec::Caps& caps, bool on);

  /// What `sequence` finds of what it has to fill; nothing for a job that does not want it. One token of a
  /// prompt is left to compute, since the draw needs its logits. `tails`: also the front of a block, which is
  /// copied.
  cache::PrefixMatch find(const Sequence& sequence, bool tails) const;

  cache::PrefixMatch find(const cache::Beginning& beginning) const {
    return index_.find(beginning.root, beginning.tokens, beginning.limit, false);
  }

  /// Blocks of each group that are not available to others from the start of the sequence to its first draw.
  /// `unread_tokens`: of steps in flight, which windows do not give back.
  std::vector<int32_t> blocks_to_start(const Sequence& sequence, const cache::PrefixMatch& match,
                                       int32_t unread_tokens) const;

  /// Whether the job begins with what others left, and leaves its own.
  bool uses(const Sequence& sequence) const { return on_ && sequence.job.use_cache; }

  /// Keeps the blocks of a match from being given away until it is used.
  void pin(const cache::PrefixMatch& match);
  void unpin(const cache::PrefixMatch& match);

  /// Opens the table of a sequence that starts, with the blocks of `match`.
  void begin(Sequence& sequence, const cache::PrefixMatch& match);

  /// The executor has taken what the sequence began with.
  void launched(Sequence& sequence);

  /// Enters what was computed up to sequence.computed.
  void enter(Sequence& sequence);

  /// Enters the rest and gives the blocks back.
  void end(Sequence& sequence);

  /// What `sequence` looks for.
  cache::Beginning beginning(const Sequence& sequence) const {
    return {cache::salted_root(sequence.job.cache_salt), sequence.tokens, limit(sequence)};
  }
  cache::PrefixIndex& index() { return index_; }
  /// Forgets the blocks behind the first `keep_tokens` of the beginning.
  void drop(const cache::Beginning& beginning, int32_t keep_tokens);
  void clear() { index_.clear(); }
  cache::PrefixStats stats() const { return index_.stats(); }

 private:
  /// Tokens of the sequence that it may find.
  static int32_t limit(const Sequence& sequence) {
    return sequence.tokens_to_fill() - (sequence.draws_read > 0 ? 0 : 1);
  }
  /// Tokens whose blocks serve others: of those computed, where roles differ in bits a prompt's only.
  int32_t shared_tokens(const Sequence& sequence) const;
  void release_sources(Sequence& sequence);

  cache::Groups& groups_;
  const bool role_blind_;
  const bool on_;
  cache::PrefixIndex index_;
};

}  // namespace penstock::engine
