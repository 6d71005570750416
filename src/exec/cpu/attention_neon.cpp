// Attention over one tile of keys: lanes are keys for the scores and head dimensions for the values. The
// arithmetic of a query does not depend on which queries share the loads.
#include "exec/cpu/kernels_neon.h"
#include "exec/cpu/simd_neon.h"

namespace penstock::exec::cpu {

namespace {

constexpr int kVectors = kTileKeys / 8;

/// A tile by the type its numbers are stored in. T: float, or uint16_t for half precision.
template <class T>
struct TileOf {
  const T *keys, *values;
  int64_t dim, stride;

  explicit TileOf(const AttendTile& tile)
      : keys(static_cast<const T*>(tile.keys)),
        values(static_cast<const T*>(tile.values)),
        dim(tile.dim),
        stride(tile.value_stride) {}
};

float32x4_t load4(const float* at) {
  return vld1q_f32(at);
}

float32x4_t load4(const uint16_t* at) {
  return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(at)));
}

/// Scores of N queries for P panels of 16 keys from panel `first`.
template <int N, int P, class T>
void score_panels(const TileOf<T>& tile, const AttendQueries& queries, float scale, int i, int first) {
  const int64_t dim = tile.dim, panel = dim * kPanelKeys, stride = tile.stride;
  const T* keys = tile.keys + first * panel;
  const float* q = queries.q + i * stride;
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
        const float32x4_t key = load4(keys + p * panel + d * kPanelKeys + 4 * v);
#pragma GCC unroll 6
        for (int n = 0; n < N; ++n) sum[n][p][v] = vfmaq_n_f32(sum[n][p][v], key, q[n * stride + d]);
      }
  }
  float* scores = queries.scores + i * kTileKeys + first * kPanelKeys;
#pragma GCC unroll 6
  for (int n = 0; n < N; ++n)
#pragma GCC unroll 4
    for (int p = 0; p < P; ++p)
#pragma GCC unroll 4
      for (int v = 0; v < 4; ++v)
        vst1q_f32(scores + n * kTileKeys + p * kPanelKeys + 4 * v, vmulq_n_f32(sum[n][p][v], scale));
}

template <int N, int P, class T>
void score_rest(const TileOf<T>& tile, const AttendQueries& queries, float scale, int i, int panels) {
  for (int p = 0; p < panels; p += P) score_panels<N, P>(tile, queries, scale, i, p);
}

/// Scores as powers of two, so that weights are exp2 of their differences.
template <class T>
void score_all(const TileOf<T>& tile, const AttendQueries& queries, int panels) {
  const float scale = queries.softcap > 0 ? queries.scale : queries.scale * kLog2E;
  const int whole = queries.n / 6 * 6;
  for (int p = 0; p < panels; ++p)
    for (int i = 0; i < whole; i += 6) score_panels<6, 1>(tile, queries, scale, i, p);
  switch (queries.n - whole) {
    case 5:
      score_rest<5, 1>(tile, queries, scale, whole, panels);
      break;
    case 4:
      score_rest<4, 1>(tile, queries, scale, whole, panels);
      break;
    case 3:
      score_rest<3, 2>(tile, queries, scale, whole, panels);
      break;
    case 2:
      score_rest<2, 2>(tile, queries, scale, whole, panels);
      break;
    case 1:
      score_rest<1, 4>(tile, queries, scale, whole, panels);
      break;
    default:
      break;
  }
  if (queries.softcap <= 0) return;
  const int64_t n = static_cast<int64_t>(queries.n) * kTileKeys;
  softcap_neon(queries.scores, n, queries.softcap);
  for (int64_t k = 0; k < n; k += 8)
    store(queries.scores + k, multiply(load(queries.scores + k), splat(kLog2E)));
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
void weigh(const AttendQueries& queries, int i, int64_t stride) {
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
    const Lanes weight = exp2_lanes(add(score[v], base));
    score[v] = {kept_lanes(seen_keys(8 * v, first, last), weight.lo),
                kept_lanes(seen_keys(8 * v + 4, first, last), weight.hi)};
    store(scores + 8 * v, score[v]);
  }
  const Lanes low = add(add(score[0], score[1]), add(score[2], score[3]));
  const Lanes high = add(add(score[4], score[5]), add(score[6], score[7]));
  const float total = fold(add(low, high));
  queries.max[i] = now;
  if (before == now) {
    queries.sum[i] += total;
    return;
  }
  const float kept = exp2_one(before - now);
  queries.sum[i] = __builtin_fmaf(queries.sum[i], kept, total);
  float* acc = queries.acc + i * stride;
  for (int64_t d = 0; d < stride; d += 8) store(acc + d, multiply(load(acc + d), splat(kept)));
}

/// acc += weights times values for keys [first, last), N queries and V chunks of 8 of the head at a time.
template <int N, int V, class T>
void add_values(const TileOf<T>& tile, const AttendQueries& queries, int i, Range keys, int64_t d) {
  const int64_t stride = tile.stride;
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
      const float32x4_t value = load4(tile.values + key * stride + d + 4 * v);
#pragma GCC unroll 6
      for (int n = 0; n < N; ++n) sum[n][v] = vfmaq_n_f32(sum[n][v], value, weights[n * kTileKeys + key]);
    }
  }
#pragma GCC unroll 6
  for (int n = 0; n < N; ++n)
#pragma GCC unroll 16
    for (int v = 0; v < 2 * V; ++v) vst1q_f32(acc + n * stride + 4 * v, sum[n][v]);
}

template <int N, int V, class T>
void add_all_values(const TileOf<T>& tile, const AttendQueries& queries, int i, Range keys) {
  if (keys.first >= keys.last) return;
  int64_t d = 0;
  for (; d + 8 * V <= tile.stride; d += 8 * V) add_values<N, V>(tile, queries, i, keys, d);
  for (; d < tile.stride; d += 8) add_values<N, 1>(tile, queries, i, keys, d);
}

/// Keys that all N queries see are added together, the others before and after them alone: each query still
/// adds its keys in order.
template <int N, int V, class T>
void values_of(const TileOf<T>& tile, const AttendQueries& queries, int i) {
  Range all = {queries.first[i], queries.last[i]};
  bool alike = true;
  for (int n = 1; n < N; ++n) {
    const Range keys = {queries.first[i + n], queries.last[i + n]};
    alike = alike && keys.first == all.first && keys.last == all.last;
    all.first = keys.first > all.first ? keys.first : all.first;
    all.last = keys.last < all.last ? keys.last : all.last;
  }
  if (alike) return add_all_values<N, V>(tile, queries, i, all);
  if (all.first >= all.last) {
    for (int n = 0; n < N; ++n)
      add_all_values<1, 8>(tile, queries, i + n, {queries.first[i + n], queries.last[i + n]});
    return;
  }
  for (int n = 0; n < N; ++n) add_all_values<1, 8>(tile, queries, i + n, {queries.first[i + n], all.first});
  add_all_values<N, V>(tile, queries, i, all);
  for (int n = 0; n < N; ++n) add_all_values<1, 8>(tile, queries, i + n, {all.last, queries.last[i + n]});
}

template <class T>
void attend(const TileOf<T>& tile, const AttendQueries& queries, int last) {
  score_all(tile, queries, (last + kPanelKeys - 1) / kPanelKeys);
  for (int i = 0; i < queries.n; ++i)
    if (queries.first[i] < queries.last[i]) weigh(queries, i, tile.stride);
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

}  // namespace

void attend_tile_neon(const AttendTile& tile, const AttendQueries& queries) {
  int last = 0;
  for (int i = 0; i < queries.n; ++i)
    if (queries.first[i] < queries.last[i] && queries.last[i] > last) last = queries.last[i];
  if (last == 0) return;
  if (tile.half)
    attend(TileOf<uint16_t>(tile), queries, last);
  else
    attend(TileOf<float>(tile), queries, last);
}

void merge_partial_neon(const Partial& next, const Partial& into, int64_t n) {
  const float top = *into.max > *next.max ? *into.max : *next.max;
  const float keep = exp2_one(*into.max - top), take = exp2_one(*next.max - top);
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
