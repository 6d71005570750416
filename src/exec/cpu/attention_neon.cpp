// Attention over one tile of keys: lanes are keys for the scores and head dimensions for the values. The
// arithmetic of a query does not depend on which queries share the loads.
#include "exec/cpu/kernels_neon.h"
#include "exec/cpu/simd_neon.h"

namespace penstock::exec::cpu {

namespace {

constexpr int kVectors = kTileKeys / 8;

/// Scores of N queries for P panels of 16 keys from panel `first`.
template <int N, int P>
void score_panels(const AttendTile& tile, const AttendQueries& queries, int i, int first) {
  const int64_t dim = tile.dim, panel = dim * kPanelKeys;
  const float* keys = tile.keys + first * panel;
  const float* q = queries.q + static_cast<int64_t>(i) * tile.value_stride;
  float32x4_t sum[N][P][4];
#pragma GCC unroll 6
  for (int n = 0; n < N; ++n)
#pragma GCC unroll 4
    for (int p = 0; p < P; ++p)
#pragma GCC unroll 4
      for (int v = 0; v < 4; ++v) sum[n][p][v] = vdupq_n_f32(0);
  for (int64_t d = 0; d < dim; ++d) {
#pragma GCC unroll 4
    for (int p = 0; p < P; ++p)
#pragma GCC unroll 4
      for (int v = 0; v < 4; ++v) {
        const float32x4_t key = vld1q_f32(keys + p * panel + d * kPanelKeys + 4 * v);
#pragma GCC unroll 6
        for (int n = 0; n < N; ++n)
          sum[n][p][v] = vfmaq_n_f32(sum[n][p][v], key, q[n * tile.value_stride + d]);
      }
  }
  float* scores = queries.scores + i * kTileKeys + first * kPanelKeys;
#pragma GCC unroll 6
  for (int n = 0; n < N; ++n)
#pragma GCC unroll 4
    for (int p = 0; p < P; ++p)
#pragma GCC unroll 4
      for (int v = 0; v < 4; ++v)
        vst1q_f32(scores + n * kTileKeys + p * kPanelKeys + 4 * v, vmulq_n_f32(sum[n][p][v], queries.scale));
}

void score_all(const AttendTile& tile, const AttendQueries& queries, int panels) {
  int i = 0;
  for (; i + 6 <= queries.n; i += 6)
    for (int p = 0; p < panels; ++p) score_panels<6, 1>(tile, queries, i, p);
  switch (queries.n - i) {
    case 5:
      for (int p = 0; p < panels; ++p) score_panels<5, 1>(tile, queries, i, p);
      break;
    case 4:
      for (int p = 0; p < panels; ++p) score_panels<4, 1>(tile, queries, i, p);
      break;
    case 3:
      for (int p = 0; p < panels; p += 2) score_panels<3, 2>(tile, queries, i, p);
      break;
    case 2:
      for (int p = 0; p < panels; p += 2) score_panels<2, 2>(tile, queries, i, p);
      break;
    case 1:
      for (int p = 0; p < panels; p += 4) score_panels<1, 4>(tile, queries, i, p);
      break;
    default:
      break;
  }
  if (queries.softcap > 0)
    softcap_neon(queries.scores, static_cast<int64_t>(queries.n) * kTileKeys, queries.softcap);
}

/// Lanes whose key is in [first, last), for keys `key` .. `key` + 3.
uint32x4_t seen_keys(int32_t key, int32_t first, int32_t last) {
  const int32_t steps[4] = {0, 1, 2, 3};
  const int32x4_t keys = vaddq_s32(vdupq_n_s32(key), vld1q_s32(steps));
  return vandq_u32(vcgeq_s32(keys, vdupq_n_s32(first)), vcltq_s32(keys, vdupq_n_s32(last)));
}

float32x4_t kept_lanes(uint32x4_t mask, float32x4_t value) {
  return vreinterpretq_f32_u32(vandq_u32(mask, vreinterpretq_u32_f32(value)));
}

/// Turns the scores of query i into weights and rescales what it has summed so far.
void weigh(const AttendTile& tile, const AttendQueries& queries, int i) {
  float* scores = queries.scores + i * kTileKeys;
  const int32_t first = queries.first[i], last = queries.last[i];
  const float32x4_t none = vdupq_n_f32(-__builtin_inff());
  Lanes score[kVectors], top = {none, none};
#pragma GCC unroll 8
  for (int v = 0; v < kVectors; ++v) {
    score[v] = load(scores + 8 * v);
    top = larger({vbslq_f32(seen_keys(8 * v, first, last), score[v].lo, none),
                  vbslq_f32(seen_keys(8 * v + 4, first, last), score[v].hi, none)},
                 top);
  }
  const float highest = fold_max(top), before = queries.max[i];
  const float now = before > highest ? before : highest;
  const Lanes base = splat(-now);
#pragma GCC unroll 8
  for (int v = 0; v < kVectors; ++v) {
    const Lanes weight = exp_lanes(add(score[v], base));
    score[v] = {kept_lanes(seen_keys(8 * v, first, last), weight.lo),
                kept_lanes(seen_keys(8 * v + 4, first, last), weight.hi)};
    store(scores + 8 * v, score[v]);
  }
  const Lanes low = add(add(score[0], score[1]), add(score[2], score[3]));
  const Lanes high = add(add(score[4], score[5]), add(score[6], score[7]));
  const float kept = exp_one(before - now);
  queries.max[i] = now;
  queries.sum[i] = __builtin_fmaf(queries.sum[i], kept, fold(add(low, high)));
  if (kept == 1.0f) return;
  float* acc = queries.acc + static_cast<int64_t>(i) * tile.value_stride;
  for (int d = 0; d < tile.value_stride; d += 8) store(acc + d, multiply(load(acc + d), splat(kept)));
}

/// acc += weights times values for keys [first, last), N queries and V chunks of 8 of the head at a time.
template <int N, int V>
void add_values(const AttendTile& tile, const AttendQueries& queries, int i, Range keys, int64_t d) {
  const int64_t stride = tile.value_stride;
  float* acc = queries.acc + i * stride + d;
  const float* weights = queries.scores + static_cast<int64_t>(i) * kTileKeys;
  float32x4_t sum[N][2 * V];
#pragma GCC unroll 6
  for (int n = 0; n < N; ++n)
#pragma GCC unroll 16
    for (int v = 0; v < 2 * V; ++v) sum[n][v] = vld1q_f32(acc + n * stride + 4 * v);
  for (int64_t key = keys.first; key < keys.last; ++key) {
#pragma GCC unroll 16
    for (int v = 0; v < 2 * V; ++v) {
      const float32x4_t value = vld1q_f32(tile.values + key * stride + d + 4 * v);
#pragma GCC unroll 6
      for (int n = 0; n < N; ++n) sum[n][v] = vfmaq_n_f32(sum[n][v], value, weights[n * kTileKeys + key]);
    }
  }
#pragma GCC unroll 6
  for (int n = 0; n < N; ++n)
#pragma GCC unroll 16
    for (int v = 0; v < 2 * V; ++v) vst1q_f32(acc + n * stride + 4 * v, sum[n][v]);
}

template <int N, int V>
void add_all_values(const AttendTile& tile, const AttendQueries& queries, int i, Range keys) {
  if (keys.first >= keys.last) return;
  int64_t d = 0;
  for (; d + 8 * V <= tile.value_stride; d += 8 * V) add_values<N, V>(tile, queries, i, keys, d);
  for (; d < tile.value_stride; d += 8) add_values<N, 1>(tile, queries, i, keys, d);
}

/// Keys that all N queries see are added together, the others before and after them alone: each query still
/// adds its keys in order.
template <int N, int V>
void values_of(const AttendTile& tile, const AttendQueries& queries, int i) {
  int64_t first = queries.first[i], last = queries.last[i];
  for (int n = 1; n < N; ++n) {
    first = queries.first[i + n] > first ? queries.first[i + n] : first;
    last = queries.last[i + n] < last ? queries.last[i + n] : last;
  }
  if (first >= last) {
    for (int n = 0; n < N; ++n)
      add_all_values<1, 8>(tile, queries, i + n, {queries.first[i + n], queries.last[i + n]});
    return;
  }
  for (int n = 0; n < N; ++n) add_all_values<1, 8>(tile, queries, i + n, {queries.first[i + n], first});
  add_all_values<N, V>(tile, queries, i, {first, last});
  for (int n = 0; n < N; ++n) add_all_values<1, 8>(tile, queries, i + n, {last, queries.last[i + n]});
}

}  // namespace

void attend_tile_neon(const AttendTile& tile, const AttendQueries& queries) {
  int last = 0;
  for (int i = 0; i < queries.n; ++i)
    if (queries.first[i] < queries.last[i] && queries.last[i] > last) last = queries.last[i];
  if (last == 0) return;
  score_all(tile, queries, (last + kPanelKeys - 1) / kPanelKeys);
  for (int i = 0; i < queries.n; ++i)
    if (queries.first[i] < queries.last[i]) weigh(tile, queries, i);
  int i = 0;
  for (; i + 6 <= queries.n; i += 6) values_of<6, 2>(tile, queries, i);
  switch (queries.n - i) {
    case 5:
      values_of<5, 2>(tile, queries, i);
      break;
    case 4:
      values_of<4, 2>(tile, queries, i);
      break;
    case 3:
      values_of<3, 4>(tile, queries, i);
      break;
    case 2:
      values_of<2, 4>(tile, queries, i);
      break;
    case 1:
      values_of<1, 8>(tile, queries, i);
      break;
    default:
      break;
  }
}

void merge_partial_neon(const Partial& next, const Partial& into, int64_t n) {
  const float top = *into.max > *next.max ? *into.max : *next.max;
  const float keep = exp_one(*into.max - top), take = exp_one(*next.max - top);
  *into.max = top;
  *into.sum = __builtin_fmaf(*next.sum, take, *into.sum * keep);
  for (int64_t d = 0; d < n; d += 8) {
    const Lanes kept = multiply(load(into.acc + d), splat(keep));
    store(into.acc + d, multiply_add(load(next.acc + d), splat(take), kept));
  }
}

void finish_partial_neon(const Partial& from, int64_t n, float* out) {
  const Lanes inverse = splat(1.0f / *from.sum);
  int64_t d = 0;
  for (; d + 8 <= n; d += 8) store(out + d, multiply(load(from.acc + d), inverse));
  if (d < n) store_part(out + d, multiply(load(from.acc + d), inverse), n - d);
}

}  // namespace penstock::exec::cpu
