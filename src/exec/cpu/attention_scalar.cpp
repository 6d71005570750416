// Attention over one tile of keys and the merging of partial softmaxes, plain C++.
#include <cmath>
#include <limits>

#include "exec/cpu/kernels_scalar.h"

namespace penstock::exec::cpu {

namespace {

constexpr float kNone = -std::numeric_limits<float>::infinity();

/// Number i of keys or values.
float stored(const AttendTile& tile, const void* from, int64_t i) {
  return tile.half ? half_to_float(static_cast<const uint16_t*>(from)[i])
                   : static_cast<const float*>(from)[i];
}

/// Scores times log2(e).
void score_keys(const AttendTile& tile, const AttendQueries& queries, int i) {
  const float* q = queries.q + static_cast<int64_t>(i) * tile.value_stride;
  float* scores = queries.scores + i * kTileKeys;
  const float scale = queries.softcap > 0 ? queries.scale : queries.scale * kLog2E;
  for (int key = 0; key < kTileKeys; ++key) {
    const int64_t panel = static_cast<int64_t>(key / kPanelKeys) * tile.dim;
    float sum = 0;
    for (int d = 0; d < tile.dim; ++d)
      sum = std::fma(q[d], stored(tile, tile.keys, (panel + d) * kPanelKeys + key % kPanelKeys), sum);
    scores[key] = sum * scale;
  }
  if (queries.softcap <= 0) return;
  softcap_scalar(scores, kTileKeys, queries.softcap);
  for (int key = 0; key < kTileKeys; ++key) scores[key] *= kLog2E;
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
    float* acc = queries.acc + static_cast<int64_t>(i) * tile.value_stride;
    for (int d = 0; d < tile.value_stride; ++d) {
      float sum = acc[d] * keep;
      for (int key = queries.first[i]; key < queries.last[i]; ++key)
        sum = std::fma(scores[key], stored(tile, tile.values, int64_t{key} * tile.value_stride + d), sum);
      acc[d] = sum;
    }
  }
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
