// Where every byte of the new weight files goes, known before the first is made. Plain data, any thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "convert/item.h"

namespace penstock::convert {

struct Shard {
  std::string name;  // "model.safetensors" or "model-00001-of-00003.safetensors"
  std::string head;  // what stands in front of the tensors
  uint64_t size_bytes = 0;
};

/// The places of one item's parts.
struct Place {
  size_t shard = 0;
  std::vector<uint64_t> offsets;  // in the shard's file, of each part
};

struct Layout {
  std::vector<Shard> shards;
  std::vector<Place> places;  // of each item
  std::string index;          // model.safetensors.index.json; empty for a single shard
  uint64_t tensor_bytes = 0;
};

/// The largest shard that mlx-lm makes.
inline constexpr uint64_t kShardBytes = uint64_t{5} << 30;

/// An item is never split; one that is larger than a shard gets its own.
Layout lay_out(std::span<const Item> items, uint64_t shard_bytes = kShardBytes);

}  // namespace penstock::convert
