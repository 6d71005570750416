// The blocks of one sequence in each KV group: reserves what it may need, takes them as it grows, gives back
// what a window has left behind. Ids only. Engine thread.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "cache/block_pool.h"

namespace penstock::cache {

struct Group {
  int32_t window = 0;  // a token sees the last `window` positions, itself included; 0: all
  BlockPool pool;
};

/// The groups of a model, shared by all its sequences.
struct Groups {
  int32_t block_tokens = 0;
  std::vector<Group> list;

  /// Blocks of each group that a sequence of `positions` holds at most, fed at most `step_tokens` a step.
  std::vector<int32_t> blocks_needed(int32_t positions, int32_t step_tokens) const;
};

/// Block `index` of the sequence's table in `group` became `block`; -1: given back.
struct TableChange {
  int32_t group = 0, index = 0, block = -1;
};

class SequenceTable {
 public:
  SequenceTable() = default;
  SequenceTable(const SequenceTable&) = delete;
  SequenceTable& operator=(const SequenceTable&) = delete;
  ~SequenceTable();

  /// Reserves `needed` blocks of each group: all of them, or none and false. `groups` must outlive the table.
  bool open(Groups& groups, std::span<const int32_t> needed);

  /// Gives back the blocks that no token from `position` on sees.
  void shrink(int32_t position, std::vector<TableChange>& changes);

  /// Takes blocks so that positions below `end` are covered.
  void grow(int32_t end, std::vector<TableChange>& changes);

  /// Gives back everything, the reservation too.
  void close();

 private:
  struct Held {
    int32_t reserved = 0;
    int32_t first = 0;            // blocks below this index were given back
    std::vector<int32_t> blocks;  // from `first` on
  };

  Groups* groups_ = nullptr;
  std::vector<Held> held_;  // [groups]
};

}  // namespace penstock::cache
