// The blocks of one sequence in each KV group: takes them as it grows, gives back what a window has left
// behind, begins with blocks that others have filled. Ids only. Engine thread.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "cache/block_pool.h"

namespace penstock::cache {

struct Group {
  int32_t window = 0;  // a token sees the last `window` positions, itself included; 0: all
  BlockPool pool;

  /// The first position that a token at `position` sees.
  int32_t first_seen(int32_t position) const {
    return window == 0 || position < window ? 0 : position - window + 1;
  }
};

/// The groups of a model, shared by all its sequences.
struct Groups {
  int32_t block_tokens = 0;
  std::vector<Group> list;

  int32_t blocks(int32_t tokens) const { return (tokens + block_tokens - 1) / block_tokens; }

  /// Blocks of each group that a sequence of `positions` holds at most, fed at most `step_tokens` a step.
  std::vector<int32_t> blocks_needed(int32_t positions, int32_t step_tokens) const;
};

/// Block `index` of the sequence's table in `group` became `block`; -1: given back.
struct TableChange {
  int32_t group = 0, index = 0, block = -1;
};

/// Blocks with consecutive indices of one group.
struct BlockRun {
  int32_t first = 0;
  std::vector<int32_t> blocks;
};

class SequenceTable {
 public:
  SequenceTable() = default;
  SequenceTable(const SequenceTable&) = delete;
  SequenceTable& operator=(const SequenceTable&) = delete;
  ~SequenceTable();

  /// Begins empty. `groups` must outlive the table.
  void open(Groups& groups);
  bool is_open() const { return groups_ != nullptr; }

  /// Begins with blocks that are in use or kept. runs: [groups], ending at the same index.
  void adopt(std::span<const BlockRun> runs, std::vector<TableChange>& changes);

  /// Gives back the blocks that no token from `position` on sees.
  void shrink(int32_t position, std::vector<TableChange>& changes);

  /// Takes blocks so that positions below `end` are covered.
  void grow(int32_t end, std::vector<TableChange>& changes);

  /// Gives back everything, the last blocks first: of those kept, the beginnings are wanted most.
  void close();

  /// Blocks that grow(end) would take in each group.
  int32_t missing(int32_t end) const;
  /// Blocks of `group` that shrink(position) would make available.
  int32_t released_by(size_t group, int32_t position) const;
  /// Blocks of `group` that close() would make available.
  int32_t own(size_t group) const;
  /// Blocks of `group` held now.
  int32_t held(size_t group) const { return static_cast<int32_t>(runs_[group].blocks.size()); }
  /// Block `index` of `group`; -1 where it is not held.
  int32_t block(size_t group, int32_t index) const;

 private:
  Groups* groups_ = nullptr;
  std::vector<BlockRun> runs_;  // [groups]
};

}  // namespace penstock::cache
