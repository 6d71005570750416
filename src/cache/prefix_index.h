// Which blocks hold the keys and values of which beginnings of prompts. A block is found by a hash over its
// tokens and all before it; its tokens are compared on a hit. Ids only, no arrays, no I/O. Engine thread.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "cache/sequence_table.h"

namespace penstock::cache {

/// Stands for a beginning: what its root is, and all tokens up to the end of a block.
struct PrefixKey {
  uint64_t high = 0, low = 0;
  bool operator==(const PrefixKey&) const = default;
};

/// The key behind `parent` and `tokens`; the whole of each id counts.
PrefixKey extend(PrefixKey parent, std::span<const int32_t> tokens);

/// The key before the first block of those that share a salt.
inline PrefixKey salted_root(uint64_t salt) {
  return {salt, ~salt};
}

/// The first `limit` of some tokens, behind a root.
struct Beginning {
  PrefixKey root;
  std::vector<int32_t> tokens;
  int32_t limit = 0;
};

/// The keys of its whole blocks, but for those among its first `keep_tokens`.
std::vector<PrefixKey> block_keys(const Beginning& beginning, int32_t block_tokens, int32_t keep_tokens = 0);

/// What a beginning was found in.
struct PrefixMatch {
  int32_t n_tokens = 0;        // the tail included
  std::vector<BlockRun> runs;  // [groups] whole blocks, those that a token behind them sees
  int32_t tail_tokens = 0;     // tokens at the front of one block more, which must be copied before it grows
  std::vector<int32_t> tail;   // [groups] that block
  PrefixKey key;               // of the whole blocks
  int32_t n_blocks = 0;        // whole blocks, given back by windows or not
};

/// How far a sequence's own blocks are in the index.
struct PrefixCursor {
  PrefixKey key;
  int32_t n_blocks = 0;
};

/// Since the start, and gauges of now.
struct PrefixStats {
  uint64_t lookups = 0, hits = 0, tokens = 0, tokens_found = 0, inserted = 0, evicted = 0;
  uint64_t entries = 0;
};

class PrefixIndex {
 public:
  /// `groups` must outlive the index, which hears of the blocks that their pools evict.
  explicit PrefixIndex(Groups& groups);
  PrefixIndex(const PrefixIndex&) = delete;
  PrefixIndex& operator=(const PrefixIndex&) = delete;

  /// The longest beginning of at most `max_tokens` of `tokens` whose blocks are all there. Retains nothing:
  /// adopt or retain the blocks before a pool gives any away. `tails`: also the front of one block more.
  PrefixMatch find(PrefixKey root, std::span<const int32_t> tokens, int32_t max_tokens, bool tails) const;

  /// Counts a lookup of `max_tokens` tokens that was made use of.
  void count(const PrefixMatch& match, int32_t max_tokens);

  /// Enters the whole blocks among the first `n_computed` of `tokens` that `table` holds. Blocks that another
  /// sequence has entered with the same content stay as they are.
  void enter(PrefixCursor& cursor, std::span<const int32_t> tokens, int32_t n_computed,
             const SequenceTable& table);

  /// Enters the tokens behind the whole blocks, once nothing writes to their block any more.
  void enter_tail(const PrefixCursor& cursor, std::span<const int32_t> tokens, int32_t n_computed,
                  const SequenceTable& table);

  /// A whole block that is not all here, and a bit for each group that is wanted of it.
  struct Missing {
    PrefixKey key;
    uint64_t groups = 0;
  };
  /// What is missing of the beginning, that `stored` has (a bit for each group that is kept elsewhere under a
  /// key), and that makes it longer with what is here.
  using Stored = std::function<uint64_t(PrefixKey)>;
  std::vector<Missing> missing(const Beginning& beginning, const Stored& stored) const;

  /// What is entered under a key; the spans hold until the index changes.
  struct View {
    PrefixKey parent;
    std::span<const int32_t> tokens;
    std::span<const int32_t> blocks;  // [groups], -1: not there

    /// A bit for each group that is there.
    uint64_t groups() const;
  };
  std::optional<View> view(PrefixKey key) const;

  /// Enters blocks that were filled from elsewhere; those of groups that are there already are not used.
  void restore(PrefixKey parent, std::span<const int32_t> tokens, std::vector<int32_t> blocks);

  /// Forgets what is entered under a key, if anything; blocks in use stay with their users.
  void forget(PrefixKey key);
  /// Forgets everything.
  void clear();

  std::function<void(PrefixKey)> on_enter;  // hears of each whole block that a sequence entered

  PrefixStats stats() const;

 private:
  struct KeyHash {
    size_t operator()(const PrefixKey& key) const { return static_cast<size_t>(key.low); }
  };
  struct Entry {
    PrefixKey parent;
    std::vector<int32_t> tokens;  // at most a block's
    std::vector<int32_t> blocks;  // [groups], -1: not there
  };

  /// Whether a group's block with that index is to be had.
  using There = std::function<bool(int32_t index, size_t group)>;

  const Entry* lookup(PrefixKey key, PrefixKey parent, std::span<const int32_t> tokens) const;
  std::vector<const Entry*> chain(PrefixKey root, std::span<const int32_t> tokens,
                                  std::vector<PrefixKey>& keys) const;
  int32_t longest(int32_t n_blocks, const There& there) const;
  void find_tail(PrefixMatch& match, std::span<const int32_t> rest) const;
  void put(PrefixKey parent, std::span<const int32_t> tokens, std::vector<int32_t> blocks);
  void evicted(size_t group, int32_t block);
  void erase(PrefixKey key);

  Groups& groups_;
  std::unordered_map<PrefixKey, Entry, KeyHash> entries_;
  std::unordered_map<PrefixKey, std::vector<PrefixKey>, KeyHash> children_;
  std::vector<std::unordered_map<int32_t, PrefixKey>> key_of_;  // [groups] of the blocks that are entered
  PrefixStats stats_;
};

}  // namespace penstock::cache
