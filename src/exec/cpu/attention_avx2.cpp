// Attention over one tile of keys: lanes are keys for the scores and head dimensions for the values. The
// arithmetic of a query does not depend on which queries share the loads.
#include "exec/cpu/kernels_avx2.h"
#include "exec/cpu/simd_avx2.h"

namespace penstock::exec::cpu {

namespace {

constexpr int kVectors = kTileKeys / 8;

/// Scores of N queries for P panels of 16 keys from panel `first`.
template <int N, int P>
void score_panels(const AttendTile& tile, const AttendQueries& queries, int i, int first) {
  const int64_t dim = tile.dim, panel = dim * kPanelKeys;
  const float* keys = tile.keys + first * panel;
  const float* q = queries.q + static_cast<int64_t>(i) * tile.value_stride;
  __m256 sum[N][P][2];
#pragma GCC unroll 6
  for (int n = 0; n < N; ++n)
#pragma GCC unroll 4
    for (int p = 0; p < P; ++p) sum[n][p][0] = sum[n][p][1] = _mm256_setzero_ps();
  for (int64_t d = 0; d < dim; ++d) {
    __m256 key[P][2];
#pragma GCC unroll 4
    for (int p = 0; p < P; ++p)
#pragma GCC unroll 2
      for (int h = 0; h < 2; ++h) key[p][h] = _mm256_loadu_ps(keys + p * panel + d * kPanelKeys + 8 * h);
#pragma GCC unroll 6
    for (int n = 0; n < N; ++n) {
      const __m256 value = _mm256_set1_ps(q[n * tile.value_stride + d]);
#pragma GCC unroll 4
      for (int p = 0; p < P; ++p)
#pragma GCC unroll 2
        for (int h = 0; h < 2; ++h) sum[n][p][h] = _mm256_fmadd_ps(value, key[p][h], sum[n][p][h]);
    }
  }
  const __m256 scale = _mm256_set1_ps(queries.scale);
#pragma GCC unroll 6
  for (int n = 0; n < N; ++n)
#pragma GCC unroll 4
    for (int p = 0; p < P; ++p)
#pragma GCC unroll 2
      for (int h = 0; h < 2; ++h)
        _mm256_storeu_ps(queries.scores + (i + n) * kTileKeys + (first + p) * kPanelKeys + 8 * h,
                         _mm256_mul_ps(sum[n][p][h], scale));
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
    softcap_avx2(queries.scores, static_cast<int64_t>(queries.n) * kTileKeys, queries.softcap);
}

/// Turns the scores of query i into weights and rescales what it has summed so far.
void weigh(const AttendTile& tile, const AttendQueries& queries, int i) {
  float* scores = queries.scores + i * kTileKeys;
  const __m256i first = _mm256_set1_epi32(queries.first[i] - 1);
  const __m256i last = _mm256_set1_epi32(queries.last[i]);
  const __m256i step = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  const __m256 none = _mm256_set1_ps(-__builtin_inff());
  __m256 seen[kVectors], score[kVectors], top = none;
#pragma GCC unroll 8
  for (int v = 0; v < kVectors; ++v) {
    const __m256i key = _mm256_add_epi32(step, _mm256_set1_epi32(8 * v));
    seen[v] =
        _mm256_castsi256_ps(_mm256_and_si256(_mm256_cmpgt_epi32(key, first), _mm256_cmpgt_epi32(last, key)));
    score[v] = _mm256_loadu_ps(scores + 8 * v);
    top = _mm256_max_ps(_mm256_blendv_ps(none, score[v], seen[v]), top);
  }
  const float highest = fold_max(top), before = queries.max[i];
  const float now = before > highest ? before : highest;
  const __m256 base = _mm256_set1_ps(now);
#pragma GCC unroll 8
  for (int v = 0; v < kVectors; ++v) {
    score[v] = _mm256_and_ps(seen[v], exp_lanes(_mm256_sub_ps(score[v], base)));
    _mm256_storeu_ps(scores + 8 * v, score[v]);
  }
  const __m256 low = _mm256_add_ps(_mm256_add_ps(score[0], score[1]), _mm256_add_ps(score[2], score[3]));
  const __m256 high = _mm256_add_ps(_mm256_add_ps(score[4], score[5]), _mm256_add_ps(score[6], score[7]));
  const float total = fold(_mm256_add_ps(low, high));
  const __m256 keep = exp_lanes(_mm256_set1_ps(before - now));
  const float kept = _mm256_cvtss_f32(keep);
  queries.max[i] = now;
  queries.sum[i] =
      _mm_cvtss_f32(_mm_fmadd_ss(_mm_set_ss(queries.sum[i]), _mm_set_ss(kept), _mm_set_ss(total)));
  if (kept == 1.0f) return;
  float* acc = queries.acc + static_cast<int64_t>(i) * tile.value_stride;
  for (int d = 0; d < tile.value_stride; d += 8)
    _mm256_storeu_ps(acc + d, _mm256_mul_ps(_mm256_loadu_ps(acc + d), keep));
}

/// acc += weights times values for keys [first, last), N queries and V vectors of the head at a time.
template <int N, int V>
void add_values(const AttendTile& tile, const AttendQueries& queries, int i, Range keys, int64_t d) {
  const int64_t stride = tile.value_stride;
  float* acc = queries.acc + i * stride + d;
  const float* weights = queries.scores + static_cast<int64_t>(i) * kTileKeys;
  __m256 sum[N][V];
#pragma GCC unroll 6
  for (int n = 0; n < N; ++n)
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) sum[n][v] = _mm256_loadu_ps(acc + n * stride + 8 * v);
  for (int64_t key = keys.first; key < keys.last; ++key) {
    __m256 value[V];
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) value[v] = _mm256_loadu_ps(tile.values + key * stride + d + 8 * v);
#pragma GCC unroll 6
    for (int n = 0; n < N; ++n) {
      const __m256 weight = _mm256_set1_ps(weights[n * kTileKeys + key]);
#pragma GCC unroll 8
      for (int v = 0; v < V; ++v) sum[n][v] = _mm256_fmadd_ps(weight, value[v], sum[n][v]);
    }
  }
#pragma GCC unroll 6
  for (int n = 0; n < N; ++n)
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) _mm256_storeu_ps(acc + n * stride + 8 * v, sum[n][v]);
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

void attend_tile_avx2(const AttendTile& tile, const AttendQueries& queries) {
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

void merge_partial_avx2(const Partial& next, const Partial& into, int64_t n) {
  const float top = *into.max > *next.max ? *into.max : *next.max;
  const __m256 keep = exp_lanes(_mm256_set1_ps(*into.max - top));
  const __m256 take = exp_lanes(_mm256_set1_ps(*next.max - top));
  *into.max = top;
  *into.sum = _mm_cvtss_f32(_mm_fmadd_ss(_mm_set_ss(*next.sum), _mm256_castps256_ps128(take),
                                         _mm_mul_ss(_mm_set_ss(*into.sum), _mm256_castps256_ps128(keep))));
  for (int64_t d = 0; d < n; d += 8) {
    const __m256 kept = _mm256_mul_ps(_mm256_loadu_ps(into.acc + d), keep);
    _mm256_storeu_ps(into.acc + d, _mm256_fmadd_ps(_mm256_loadu_ps(next.acc + d), take, kept));
  }
}

void finish_partial_avx2(const Partial& from, int64_t n, float* out) {
  const __m256 inverse = _mm256_set1_ps(1.0f / *from.sum);
  for (int64_t d = 0; d < n; d += 8) {
    const __m256i mask = first_lanes(n - d < 8 ? n - d : 8);
    _mm256_maskstore_ps(out + d, mask, _mm256_mul_ps(_mm256_loadu_ps(from.acc + d), inverse));
  }
}

}  // namespace penstock::exec::cpu
