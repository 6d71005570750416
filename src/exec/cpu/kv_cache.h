// The paged cache of keys and values: blocks of 64 positions, one set of blocks for each KV group. Half
// precision, or float32 in exact mode: half keeps 11 bits of a value where bfloat16 keeps 8, and keys and
// values stay far inside its range (larger ones saturate). Written by the threads of a job, each its own
// tokens. Knows nothing of sequences.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "exec/cpu/arena.h"
#include "exec/cpu/kernels.h"
#include "models/plan.h"

namespace penstock::exec::cpu {

/// Head dimension as values are stored: whole vectors.
inline int32_t padded_dim(int32_t dim) {
  return (dim + 7) / 8 * 8;
}

class KvCache {
 public:
  KvCache() = default;
  KvCache(const models::Plan& plan, std::span<const int32_t> n_blocks, bool exact);

  static size_t block_bytes(const models::KvGroup& group, bool exact);

  /// Writes one head of one position. key, value: [dim].
  struct Place {
    int32_t kv_layer = 0, block = 0, head = 0;
    int32_t offset = 0;  // position within the block
  };
  void store(const Kernels& kernels, const Place& at, const float* key, const float* value) const;

  /// What block `from` of a group holds, to block `to`: all layers and heads.
  void copy(int32_t group, int32_t from, int32_t to) const;

  /// The bytes of a block of a group: all layers and heads. The cache's memory.
  std::span<std::byte> block(int32_t group, int32_t block) const;

  /// What these blocks of a group hold is not wanted any more: their memory goes back to the system.
  void drop(int32_t group, std::span<const int32_t> blocks) const;

  /// Keys [first, last) of one head of a block for `n_queries` queries: in place, or in float32 in `scratch`
  /// (tile_floats) where so many queries read half precision that converting it once pays. Other keys of the
  /// tile hold anything.
  AttendTile tile(const Kernels& kernels, const Place& at, Range keys, int32_t n_queries,
                  float* scratch) const;

  /// Keys of one head of a block, as AttendTile::next wants them.
  const void* keys(const Place& at) const;

  static size_t tile_floats(int32_t dim) { return static_cast<size_t>(kTileKeys) * (dim + padded_dim(dim)); }

  int32_t n_blocks(int32_t group) const { return groups_[static_cast<size_t>(group)].n_blocks; }

 private:
  struct Group {
    Arena memory;
    int32_t n_blocks = 0, n_layers = 0, kv_heads = 0, dim = 0;
  };

  const Group& group_of(const Place& at) const {
    return groups_[static_cast<size_t>(layers_[static_cast<size_t>(at.kv_layer)].group)];
  }

  /// Elements from the start of the group's memory to one head of one layer of one block.
  size_t offset_of(const Group& group, const Place& at) const;

  std::vector<Group> groups_;
  std::vector<models::KvLayer> layers_;
  bool exact_ = false;
};

}  // namespace penstock::exec::cpu
