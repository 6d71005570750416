#include "exec/cpu/kv_cache.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>

#include "base/error.h"

namespace penstock::exec::cpu {

namespace {

/// Two passes of the kernels over a tile cost less than writing it out and reading it again.
constexpr int32_t kQueriesInPlace = 12;

constexpr size_t kMostGroup = 64;

KvPart part_of(int32_t bits, bool exact) {
  if (bits == 0) return {.type = exact ? KvType::kF32 : KvType::kF16};
  return {.type = bits == 8 ? KvType::kCodes8 : KvType::kCodes4, .bits = bits, .group = ops::kv_group(bits)};
}

/// Bytes of n numbers, of four bits an even number of them.
size_t bytes_of(KvType type, size_t n) {
  if (type == KvType::kCodes4) return n / 2;
  return n * (type == KvType::kF32 ? 4 : type == KvType::kF16 ? 2 : 1);
}

/// Numbers from one position's values to the next.
size_t row_of(KvType type, int32_t dim) {
  return static_cast<size_t>(type == KvType::kCodes4 ? (dim + 31) / 32 * 32 : padded_dim(dim));
}

/// One group of a head as codes, zeros behind its end.
struct Codes {
  alignas(64) std::array<int8_t, kMostGroup> codes;
  uint16_t scale;

  Codes(const Kernels& kernels, const KvPart& part, const float* x, size_t n) {
    alignas(64) std::array<float, kMostGroup> padded = {};
    std::memcpy(padded.data(), x, n * sizeof(float));
    float exact = 0, sum;
    int32_t code_sum;
    if (part.bits == 8)
      kernels.quantize_row(padded.data(), {codes.data(), &exact, &sum, &code_sum, part.group, part.group, 1});
    else
      exact = ops::quantize_kv(part.bits, {padded.data(), static_cast<size_t>(part.group)}, codes.data());
    kernels.to_f16(&exact, 1, &scale);
  }

  uint8_t pair(size_t low, size_t high) const {
    return static_cast<uint8_t>((codes[low] & 15) | codes[high] << 4);
  }
};

/// call(first, n, codes) for each group of a head; its scales go to [groups][64] at the offset.
template <class Call>
void by_groups(const Kernels& kernels, const KvPart& part, uint8_t* head, size_t offset,
               std::span<const float> x, const Call& call) {
  auto* scales = reinterpret_cast<uint16_t*>(head + part.scales_at) + offset;
  for (size_t first = 0; first < x.size(); first += static_cast<size_t>(part.group), scales += kTileKeys) {
    const size_t n = std::min(static_cast<size_t>(part.group), x.size() - first);
    const Codes codes(kernels, part, x.data() + first, n);
    *scales = codes.scale;
    call(first, n, codes);
  }
}

void store_key_codes(const Kernels& kernels, const KvPart& part, uint8_t* head, size_t offset,
                     std::span<const float> key) {
  const size_t together = part.bits == 4 ? 2 : 1;
  uint8_t* panel =
      head + part.at + offset / kPanelKeys * kPanelKeys * (key.size() / together) + offset % kPanelKeys;
  by_groups(kernels, part, head, offset, key, [&](size_t first, size_t n, const Codes& from) {
    uint8_t* to = panel + first / together * kPanelKeys;
    for (size_t d = 0; d < n; d += together, to += kPanelKeys)
      *to = together == 2 ? from.pair(d, d + 1) : static_cast<uint8_t>(from.codes[d]);
  });
}

void store_value_codes(const Kernels& kernels, const KvPart& part, uint8_t* head, size_t offset,
                       std::span<const float> value) {
  uint8_t* row =
      head + part.at + offset * bytes_of(part.type, row_of(part.type, static_cast<int32_t>(value.size())));
  by_groups(kernels, part, head, offset, value, [&](size_t first, size_t n, const Codes& from) {
    if (part.bits == 8) {
      std::memcpy(row + first, from.codes.data(), n);
      return;
    }
    for (size_t i = 0; i < 16; ++i) row[first / 2 + i] = from.pair(i, 16 + i);
  });
}

void store_halves(const Kernels& kernels, const KvHead& shape, uint8_t* head, size_t offset, const float* key,
                  const float* value) {
  const auto dim = static_cast<size_t>(shape.dim);
  auto* keys = reinterpret_cast<uint16_t*>(head + shape.keys.at) + offset / kPanelKeys * dim * kPanelKeys +
               offset % kPanelKeys;
  for (size_t d = 0; d < dim; d += 64) {
    std::array<uint16_t, 64> half;
    const size_t n = dim - d < 64 ? dim - d : 64;
    kernels.to_f16(key + d, static_cast<int64_t>(n), half.data());
    for (size_t i = 0; i < n; ++i) keys[(d + i) * kPanelKeys] = half[i];
  }
  kernels.to_f16(
      value, shape.dim,
      reinterpret_cast<uint16_t*>(head + shape.values.at) + offset * row_of(KvType::kF16, shape.dim));
}

void store_floats(const KvHead& shape, uint8_t* head, size_t offset, const float* key, const float* value) {
  const auto dim = static_cast<size_t>(shape.dim);
  auto* keys = reinterpret_cast<float*>(head + shape.keys.at) + offset / kPanelKeys * dim * kPanelKeys +
               offset % kPanelKeys;
  for (size_t d = 0; d < dim; ++d) keys[d * kPanelKeys] = key[d];
  std::memcpy(reinterpret_cast<float*>(head + shape.values.at) + offset * row_of(KvType::kF32, shape.dim),
              value, dim * sizeof(float));
}

/// Numbers [first, last) of keys or values to the same places of `to`.
void to_floats(const Kernels& kernels, KvType type, const uint8_t* from, int64_t first, int64_t last,
               float* to) {
  const uint8_t* at = from + bytes_of(type, static_cast<size_t>(first));
  if (type == KvType::kF16)
    kernels.from_f16(reinterpret_cast<const uint16_t*>(at), last - first, to + first);
  else if (type == KvType::kCodes8)
    kernels.from_codes8(reinterpret_cast<const int8_t*>(at), last - first, to + first);
  else
    kernels.from_codes4(at, last - first, to + first);
}

/// Values of keys [first, last), rows of padded_dim(dim).
void values_to_floats(const Kernels& kernels, const KvHead& shape, const uint8_t* head, Range keys,
                      float* to) {
  const int64_t padded = padded_dim(shape.dim),
                row = static_cast<int64_t>(row_of(shape.values.type, shape.dim));
  const uint8_t* from = head + shape.values.at;
  if (row == padded)
    return to_floats(kernels, shape.values.type, from, keys.first * row, keys.last * row, to);
  std::array<float, 32> rest;
  const int64_t whole = padded / 32 * 32;
  for (int64_t key = keys.first; key < keys.last; ++key) {
    const uint8_t* at = from + bytes_of(shape.values.type, static_cast<size_t>(key * row));
    if (whole > 0) kernels.from_codes4(at, whole, to + key * padded);
    kernels.from_codes4(at + whole / 2, 32, rest.data());
    std::copy_n(rest.data(), padded - whole, to + key * padded + whole);
  }
}

/// Inlined, so that it is not dropped as a call without effect.
inline __attribute__((always_inline)) void ask_lines(const uint8_t* at, size_t bytes) {
  for (size_t i = 0; i < bytes; i += 64) __builtin_prefetch(at + i);
}

}  // namespace

KvHead::KvHead(int32_t head_dim, const KvTypes& types)
    : dim(head_dim),
      keys(part_of(ops::key_bits(types.format), types.exact)),
      values(part_of(ops::value_bits(types.format), types.exact)) {
  if (keys.bits == 4 && dim % 2 != 0)
    throw base::Error(
        base::Code::kUnsupported,
        "[exec.cpu] expected heads of an even dimension for keys of 4 bits; got " + std::to_string(dim));
  const auto positions = static_cast<size_t>(kTileKeys);
  values.at = bytes_of(keys.type, positions * static_cast<size_t>(dim));
  keys.scales_at = values.at + bytes_of(values.type, positions * row_of(values.type, dim));
  values.scales_at = keys.scales_at + positions * sizeof(uint16_t) * static_cast<size_t>(groups(keys));
  bytes = values.scales_at + positions * sizeof(uint16_t) * static_cast<size_t>(groups(values));
}

KvCache::KvCache(const models::Plan& plan, std::span<const int32_t> n_blocks, const KvTypes& types)
    : layers_(plan.kv_layers) {
  for (size_t g = 0; g < plan.kv_groups.size(); ++g) {
    const models::KvGroup& from = plan.kv_groups[g];
    const size_t bytes = block_bytes(from, types);
    Group group{Arena(bytes * static_cast<size_t>(n_blocks[g])),
                n_blocks[g],
                from.n_layers,
                from.kv_heads,
                KvHead(from.head_dim, types),
                bytes};
    groups_.push_back(std::move(group));
  }
}

size_t KvCache::block_bytes(const models::KvGroup& group, const KvTypes& types) {
  return static_cast<size_t>(group.n_layers) * static_cast<size_t>(group.kv_heads) *
         KvHead(group.head_dim, types).bytes;
}

uint8_t* KvCache::head_of(const Group& group, const Place& at) const {
  const auto layer = static_cast<size_t>(layers_[static_cast<size_t>(at.kv_layer)].index);
  return group.memory.data() + static_cast<size_t>(at.block) * group.block_bytes +
         (layer * static_cast<size_t>(group.kv_heads) + static_cast<size_t>(at.head)) * group.head.bytes;
}

void KvCache::store(const Kernels& kernels, const Place& at, const float* key, const float* value) const {
  const Group& group = group_of(at);
  const KvHead& shape = group.head;
  uint8_t* head = head_of(group, at);
  const auto offset = static_cast<size_t>(at.offset), dim = static_cast<size_t>(shape.dim);
  if (!shape.plain()) {
    store_key_codes(kernels, shape.keys, head, offset, {key, dim});
    store_value_codes(kernels, shape.values, head, offset, {value, dim});
  } else if (shape.keys.type == KvType::kF32) {
    store_floats(shape, head, offset, key, value);
  } else {
    store_halves(kernels, shape, head, offset, key, value);
  }
}

std::span<std::byte> KvCache::block(int32_t group, int32_t block) const {
  const Group& g = groups_[static_cast<size_t>(group)];
  return {g.memory.as<std::byte>() + static_cast<size_t>(block) * g.block_bytes, g.block_bytes};
}

void KvCache::copy(int32_t group, int32_t from, int32_t to) const {
  std::ranges::copy(block(group, from), block(group, to).begin());
}

void KvCache::drop(int32_t group, std::span<const int32_t> blocks) const {
  const Group& g = groups_[static_cast<size_t>(group)];
  if (g.n_blocks == 0) return;
  std::vector<int32_t> sorted(blocks.begin(), blocks.end());
  std::sort(sorted.begin(), sorted.end());
  for (size_t i = 0; i < sorted.size();) {  // neighbours in one call
    size_t end = i + 1;
    while (end < sorted.size() && sorted[end] == sorted[end - 1] + 1) ++end;
    g.memory.drop(static_cast<size_t>(sorted[i]) * g.block_bytes, (end - i) * g.block_bytes);
    i = end;
  }
}

AttendTile KvCache::tile(const Kernels& kernels, const Place& at, Range keys, int32_t n_queries,
                         float* scratch, const Place* next) const {
  const Group& group = group_of(at);
  const KvHead& shape = group.head;
  const uint8_t* head = head_of(group, at);
  const int64_t dim = shape.dim, padded = padded_dim(shape.dim);
  AttendTile tile = {.keys = head + shape.keys.at,
                     .values = head + shape.values.at,
                     .dim = shape.dim,
                     .value_stride = static_cast<int32_t>(padded),
                     .key_type = shape.keys.type,
                     .value_type = shape.values.type};
  if (next != nullptr) tile.next = head_of(group, *next);
  float* values = scratch + kTileKeys * dim;
  if (!shape.plain()) {
    const size_t key_scales = static_cast<size_t>(kTileKeys) * static_cast<size_t>(shape.groups(shape.keys));
    const size_t n =
        key_scales + static_cast<size_t>(kTileKeys) * static_cast<size_t>(shape.groups(shape.values));
    float* scales = values + kTileKeys * padded;
    kernels.from_f16(reinterpret_cast<const uint16_t*>(head + shape.keys.scales_at), static_cast<int64_t>(n),
                     scales);
    tile.key_scales = scales;
    tile.value_scales = scales + key_scales;
    tile.key_group = shape.keys.group;
    tile.value_group = shape.values.group;
    if (next != nullptr)
      ask_lines(static_cast<const uint8_t*>(tile.next) + shape.keys.scales_at, n * sizeof(uint16_t));
  }
  if (n_queries <= kQueriesInPlace || shape.keys.type == KvType::kF32) return tile;
  const int64_t first = keys.first / kPanelKeys * kPanelKeys * dim;
  const int64_t last = (keys.last + kPanelKeys - 1) / kPanelKeys * kPanelKeys * dim;
  to_floats(kernels, shape.keys.type, head, first, last, scratch);
  values_to_floats(kernels, shape, head, keys, values);
  tile.keys = scratch;
  tile.values = values;
  tile.key_type = tile.value_type = KvType::kF32;
  return tile;
}

}  // namespace penstock::exec::cpu
