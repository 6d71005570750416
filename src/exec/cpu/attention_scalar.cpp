// Attention over one tile of keys and the merging of partial softmaxes, plain C++.
#include <cmath>
#include <limits>

#include "exec/cpu/kernels_scalar.h"

namespace penstock::exec::cpu {

namespace {

constexpr float kNone = -std::numeric_limits<float>::infinity();

int four_bits(uint8_t byte, bool high) {
  return static_cast<int8_t>(high ? byte : byte << 4) >> 4;
}

/// Number i of what is not codes of four bits.
float number(KvType type, const void* from, int64_t i) {
  if (type == KvType::kF16) return half_to_float(static_cast<const uint16_t*>(from)[i]);
  if (type == KvType::kCodes8) return static_cast<float>(static_cast<const int8_t*>(from)[i]);
  return static_cast<const float*>(from)[i];
}

float key_at(const AttendTile& tile, int key, int d) {
  const int64_t panel = key / kPanelKeys, lane = key % kPanelKeys;
  if (tile.key_type != KvType::kCodes4)
    return number(tile.key_type, tile.keys, (panel * tile.dim + d) * kPanelKeys + lane);
  const int64_t at = (panel * (tile.dim / 2) + d / 2) * kPanelKeys + lane;
  return static_cast<float>(four_bits(static_cast<const uint8_t*>(tile.keys)[at], d % 2 == 1));
}

float value_at(const AttendTile& tile, int key, int d) {
  if (tile.value_type != KvType::kCodes4)
    return number(tile.value_type, tile.values, int64_t{key} * tile.value_stride + d);
  const int64_t at = (int64_t{key} * ((tile.value_stride + 31) / 32) + d / 32) * 16 + d % 16;
  return static_cast<float>(four_bits(static_cast<const uint8_t*>(tile.values)[at], d % 32 >= 16));
}

/// Scores times log2(e).
void score_keys(const AttendTile& tile, const AttendQueries& queries, int i) {
  const float* q = queries.q + static_cast<int64_t>(i) * tile.value_stride;
  float* scores = queries.scores + i * kTileKeys;
  const float scale = queries.softcap > 0 ? queries.scale : queries.scale * kLog2E;
  const int group = tile.key_scales == nullptr ? tile.dim : tile.key_group;
  for (int key = 0; key < kTileKeys; ++key) {
    float score = 0;
    for (int first = 0; first < tile.dim; first += group) {
      float sum = 0;
      for (int d = first; d < tile.dim && d < first + group; ++d)
        sum = std::fma(q[d], key_at(tile, key, d), sum);
      if (tile.key_scales == nullptr) {
        score = sum;
        continue;
      }
      const float by = tile.key_scales[first / group * kTileKeys + key];
      score = first == 0 ? sum * by : std::fma(sum, by, score);
    }
    scores[key] = score * scale;
  }
  if (queries.softcap <= 0) return;
  softcap_scalar(scores, kTileKeys, queries.softcap);
  for (int key = 0; key < kTileKeys; ++key) scores[key] *= kLog2E;
}

/// acc += weights times values; scales are taken into the weights.
void add_values(const AttendTile& tile, const AttendQueries& queries, int i, float keep) {
  const float* weights = queries.scores + i * kTileKeys;
  float* acc = queries.acc + static_cast<int64_t>(i) * tile.value_stride;
  for (int d = 0; d < tile.value_stride; ++d) {
    const float* scales =
        tile.value_scales == nullptr ? nullptr : tile.value_scales + d / tile.value_group * kTileKeys;
    float sum = acc[d] * keep;
    for (int key = queries.first[i]; key < queries.last[i]; ++key)
      sum = std::fma(scales == nullptr ? weights[key] : weights[key] * scales[key], value_at(tile, key, d),
                     sum);
    acc[d] = sum;
  }
}

}  // namespace

void attend_tile_scalar(const AttendTile& tile, const AttendQueries& queries) {
  for (int i = 0; i < queries.n; ++i) {
    if (queries.first[i] >= queries.last[i]) continue;
    score_keys(tile, queries, i);
    float* scores = queries.scores + i * kTileKeys;
    float top = kNone;
    for (int key = queries.first[i]; key < queries.last[i]; ++key)
      top = scores[key] > top ? scores[key] : top;
    const float before = queries.max[i];
    const float now = before > top ? before : top;
    const float keep = before == now ? 1.0f : exp2_scalar(before - now);
    float lanes[kTileKeys] = {};
    for (int key = queries.first[i]; key < queries.last[i]; ++key)
      lanes[key] = scores[key] = exp2_scalar(scores[key] - now);
    float folded[8];
    for (int l = 0; l < 8; ++l)
      folded[l] = ((lanes[l] + lanes[l + 8]) + (lanes[l + 16] + lanes[l + 24])) +
                  ((lanes[l + 32] + lanes[l + 40]) + (lanes[l + 48] + lanes[l + 56]));
    queries.sum[i] = std::fma(queries.sum[i], keep, fold8(folded));
    queries.max[i] = now;
    add_values(tile, queries, i, keep);
  }
}

void from_codes8_scalar(const int8_t* codes, int64_t n, float* out) {
  for (int64_t i = 0; i < n; ++i) out[i] = codes[i];
}

void from_codes4_scalar(const uint8_t* codes, int64_t n, float* out) {
  for (int64_t i = 0; i < n; ++i)
    out[i] = static_cast<float>(four_bits(codes[i / 32 * 16 + i % 16], i % 32 >= 16));
}

void merge_partial_scalar(const Partial& next, const Partial& into, int64_t n) {
  const float top = *into.max > *next.max ? *into.max : *next.max;
  const float keep = exp2_scalar(*into.max - top);
  const float take = exp2_scalar(*next.max - top);
  *into.max = top;
  *into.sum = std::fma(*next.sum, take, *into.sum * keep);
  for (int64_t d = 0; d < n; ++d) into.acc[d] = std::fma(next.acc[d], take, into.acc[d] * keep);
}

void finish_partial_scalar(const Partial& from, int64_t n, float* out) {
  const float inverse = 1.0f / *from.sum;
  for (int64_t d = 0; d < n; ++d) out[d] = from.acc[d] * inverse;
}

}  // namespace penstock::exec::cpu
