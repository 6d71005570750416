#include "exec/cpu/kv_cache.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace penstock::exec::cpu {

namespace {

/// Two passes of the kernels over a tile cost less than writing it out and reading it again.
constexpr int32_t kQueriesInPlace = 12;

size_t head_elements(int32_t dim) {
  return KvCache::tile_floats(dim);
}

}  // namespace

KvCache::KvCache(const models::Plan& plan, std::span<const int32_t> n_blocks, bool exact)
    : layers_(plan.kv_layers), exact_(exact) {
  for (size_t g = 0; g < plan.kv_groups.size(); ++g) {
    const models::KvGroup& from = plan.kv_groups[g];
    Group group{Arena(block_bytes(from, exact) * static_cast<size_t>(n_blocks[g])), n_blocks[g],
                from.n_layers, from.kv_heads, from.head_dim};
    groups_.push_back(std::move(group));
  }
}

size_t KvCache::block_bytes(const models::KvGroup& group, bool exact) {
  return static_cast<size_t>(group.n_layers) * static_cast<size_t>(group.kv_heads) *
         head_elements(group.head_dim) * (exact ? sizeof(float) : sizeof(uint16_t));
}

size_t KvCache::offset_of(const Group& group, const Place& at) const {
  const auto layer = static_cast<size_t>(layers_[static_cast<size_t>(at.kv_layer)].index);
  const size_t index = (static_cast<size_t>(at.block) * static_cast<size_t>(group.n_layers) + layer) *
                           static_cast<size_t>(group.kv_heads) +
                       static_cast<size_t>(at.head);
  return index * head_elements(group.dim);
}

void KvCache::store(const Kernels& kernels, const Place& at, const float* key, const float* value) const {
  const Group& group = group_of(at);
  const auto dim = static_cast<size_t>(group.dim), padded = static_cast<size_t>(padded_dim(group.dim));
  const size_t head = offset_of(group, at);
  const auto offset = static_cast<size_t>(at.offset);
  const size_t key_at = head + offset / kPanelKeys * dim * kPanelKeys + offset % kPanelKeys;
  const size_t value_at = head + kTileKeys * dim + offset * padded;
  if (exact_) {
    float* memory = group.memory.as<float>();
    for (size_t d = 0; d < dim; ++d) memory[key_at + d * kPanelKeys] = key[d];
    std::memcpy(memory + value_at, value, dim * sizeof(float));
    return;
  }
  auto* memory = group.memory.as<uint16_t>();
  for (size_t d = 0; d < dim; d += 64) {
    std::array<uint16_t, 64> half;
    const size_t n = dim - d < 64 ? dim - d : 64;
    kernels.to_f16(key + d, static_cast<int64_t>(n), half.data());
    for (size_t i = 0; i < n; ++i) memory[key_at + (d + i) * kPanelKeys] = half[i];
  }
  kernels.to_f16(value, group.dim, memory + value_at);
}

std::span<std::byte> KvCache::block(int32_t group, int32_t block) const {
  const Group& g = groups_[static_cast<size_t>(group)];
  const size_t bytes = static_cast<size_t>(g.n_layers) * static_cast<size_t>(g.kv_heads) *
                       head_elements(g.dim) * (exact_ ? sizeof(float) : sizeof(uint16_t));
  return {g.memory.as<std::byte>() + static_cast<size_t>(block) * bytes, bytes};
}

void KvCache::copy(int32_t group, int32_t from, int32_t to) const {
  std::ranges::copy(block(group, from), block(group, to).begin());
}

void KvCache::drop(int32_t group, std::span<const int32_t> blocks) const {
  const Group& g = groups_[static_cast<size_t>(group)];
  if (g.n_blocks == 0) return;
  const size_t bytes = static_cast<size_t>(g.n_layers) * static_cast<size_t>(g.kv_heads) *
                       head_elements(g.dim) * (exact_ ? sizeof(float) : sizeof(uint16_t));
  std::vector<int32_t> sorted(blocks.begin(), blocks.end());
  std::sort(sorted.begin(), sorted.end());
  for (size_t i = 0; i < sorted.size();) {  // neighbours in one call
    size_t end = i + 1;
    while (end < sorted.size() && sorted[end] == sorted[end - 1] + 1) ++end;
    g.memory.drop(static_cast<size_t>(sorted[i]) * bytes, (end - i) * bytes);
    i = end;
  }
}

const void* KvCache::keys(const Place& at) const {
  const Group& group = group_of(at);
  const size_t head = offset_of(group, at);
  if (exact_) return group.memory.as<float>() + head;
  return group.memory.as<uint16_t>() + head;
}

AttendTile KvCache::tile(const Kernels& kernels, const Place& at, Range keys, int32_t n_queries,
                         float* scratch) const {
  const Group& group = group_of(at);
  const int64_t dim = group.dim, padded = padded_dim(group.dim);
  const int64_t values_at = kTileKeys * dim;
  AttendTile tile = {.dim = group.dim, .value_stride = static_cast<int32_t>(padded), .half = !exact_};
  if (exact_) {
    const float* memory = group.memory.as<float>() + offset_of(group, at);
    tile.keys = memory;
    tile.values = memory + values_at;
    return tile;
  }
  const uint16_t* memory = group.memory.as<uint16_t>() + offset_of(group, at);
  tile.keys = memory;
  tile.values = memory + values_at;
  if (n_queries <= kQueriesInPlace) return tile;
  const int64_t first = keys.first / kPanelKeys * kPanelKeys * dim;
  const int64_t last = (keys.last + kPanelKeys - 1) / kPanelKeys * kPanelKeys * dim;
  kernels.from_f16(memory + first, last - first, scratch + first);
  float* values = scratch + values_at;
  kernels.from_f16(memory + values_at + keys.first * padded, (keys.last - keys.first) * padded,
                   values + keys.first * padded);
  tile.keys = scratch;
  tile.values = values;
  tile.half = false;
  return tile;
}

}  // namespace penstock::exec::cpu
