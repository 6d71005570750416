// The paged cache of keys and values: blocks of 64 positions, one set of blocks for each KV group. Half
// precision, float32 in exact mode, or codes with scales (ops/kv_format.h): half keeps 11 bits of a value
// where bfloat16 has 8, and keys and values stay far inside its range (larger ones saturate). Written by the
// threads of a job, each its own tokens, which share no byte. Knows nothing of sequences.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "exec/cpu/arena.h"
#include "exec/cpu/kernels.h"
#include "models/plan.h"
#include "ops/kv_format.h"

namespace penstock::exec::cpu {

/// Head dimension as values are stored: whole vectors.
inline int32_t padded_dim(int32_t dim) {
  return (dim + 7) / 8 * 8;
}

/// What the numbers of a cache are.
struct KvTypes {
  bool exact = false;
  ops::KvFormat format = ops::KvFormat::kPlain;
};

/// Where keys or values of one head of one block lie, in bytes from its start.
struct KvPart {
  KvType type = KvType::kF32;
  int32_t bits = 0;   // of a code, 0: no codes
  int32_t group = 0;  // dimensions that share a scale
  size_t at = 0;
  size_t scales_at = 0;  // half precision, [groups][64]
};

/// One head of one block: keys, values, scales of the keys, scales of the values.
struct KvHead {
  KvHead() = default;
  /// Throws Error(kUnsupported) for a head that codes of four bits cannot hold.
  KvHead(int32_t head_dim, const KvTypes& types);

  int32_t dim = 0;
  KvPart keys, values;
  size_t bytes = 0;  // a multiple of 64

  int32_t groups(const KvPart& part) const {
    return part.bits == 0 ? 0 : (dim + part.group - 1) / part.group;
  }
  bool plain() const { return keys.bits == 0; }
};

class KvCache {
 public:
  KvCache() = default;
  KvCache(const models::Plan& plan, std::span<const int32_t> n_blocks, const KvTypes& types);

  static size_t block_bytes(const models::KvGroup& group, const KvTypes& types);

  /// Writes one head of one position. key, value: [dim].
  struct Place {
    int32_t kv_layer = 0, block = 0, head = 0;
    int32_t offset = 0;  // position within the block
  };
  void store(const Kernels& kernels, const Place& at, const float* key, const float* value) const;

  /// What block `from` of a group holds, to block `to`: all layers and heads, scales too.
  void copy(int32_t group, int32_t from, int32_t to) const;

  /// The bytes of a block of a group: all layers and heads. The cache's memory.
  std::span<std::byte> block(int32_t group, int32_t block) const;

  /// What these blocks of a group hold is not wanted any more: their memory goes back to the system.
  void drop(int32_t group, std::span<const int32_t> blocks) const;

  /// Keys [first, last) of one head of a block for `n_queries` queries: in place, or in float32 in `scratch`
  /// (tile_floats) where so many queries read them that converting once pays. Scales are in `scratch`. Other
  /// keys of the tile hold anything. `next`: the place that is read soon after, or null.
  AttendTile tile(const Kernels& kernels, const Place& at, Range keys, int32_t n_queries, float* scratch,
                  const Place* next) const;

  /// A tile in float32, and the scales of its keys and values.
  static size_t tile_floats(int32_t dim) {
    return static_cast<size_t>(kTileKeys) * static_cast<size_t>(dim + padded_dim(dim) + 2 * (dim / 32 + 1));
  }

  int32_t n_blocks(int32_t group) const { return groups_[static_cast<size_t>(group)].n_blocks; }

 private:
  struct Group {
    Arena memory;
    int32_t n_blocks = 0, n_layers = 0, kv_heads = 0;
    KvHead head;
    size_t block_bytes = 0;
  };

  const Group& group_of(const Place& at) const {
    return groups_[static_cast<size_t>(layers_[static_cast<size_t>(at.kv_layer)].group)];
  }

  /// One head of one layer of one block.
  uint8_t* head_of(const Group& group, const Place& at) const;

  std::vector<Group> groups_;
  std::vector<models::KvLayer> layers_;
};

}  // namespace penstock::exec::cpu
