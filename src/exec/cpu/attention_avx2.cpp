// Attention over one tile of keys: lanes are keys for the scores and head dimensions for the values.
#include "exec/cpu/attention_tiles.h"
#include "exec/cpu/kernels_avx2.h"
#include "exec/cpu/simd_avx2.h"

namespace penstock::exec::cpu {

namespace {

constexpr int kVectors = kTileKeys / 8;

static inline __attribute__((always_inline)) __m256 load8(const float* at) {
  return _mm256_loadu_ps(at);
}

static inline __attribute__((always_inline)) __m256 load8(const uint16_t* at) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(at)));
}

/// Asks for what lies `next` bytes after a place: only tiles that come straight from the cache are asked for.
template <class T>
static inline __attribute__((always_inline)) void ask(const T* at, int64_t next) {
  if constexpr (sizeof(T) == 2) _mm_prefetch(reinterpret_cast<const char*>(at) + next, _MM_HINT_T0);
}

/// Scores of N queries for P panels of 16 keys from panel `first`.
template <int N, int P, class T>
void score_panels(const TileOf<T>& tile, const AttendQueries& queries, float scale, int i, int first) {
  const int64_t dim = tile.dim, panel = dim * kPanelKeys, stride = tile.stride;
  const T* keys = tile.keys + first * panel;
  const float* q = queries.q + i * stride;
  __m256 sum[N][P][2];
#pragma GCC unroll 6
  for (int n = 0; n < N; ++n)
#pragma GCC unroll 4
    for (int p = 0; p < P; ++p) sum[n][p][0] = sum[n][p][1] = _mm256_setzero_ps();
  for (int64_t d = 0; d < dim; ++d, keys += kPanelKeys) {
    __m256 key[P][2];
#pragma GCC unroll 4
    for (int p = 0; p < P; ++p) {
      // A panel of half precision has half a line of each dimension: two panels take turns.
      if (p % 2 == 0) ask(keys + p * panel + (P > 1 ? d % 2 * panel : 0), tile.next);
#pragma GCC unroll 2
      for (int h = 0; h < 2; ++h) key[p][h] = load8(keys + p * panel + 8 * h);
    }
#pragma GCC unroll 6
    for (int n = 0; n < N; ++n) {
      const __m256 value = _mm256_set1_ps(q[n * stride + d]);
#pragma GCC unroll 4
      for (int p = 0; p < P; ++p)
#pragma GCC unroll 2
        for (int h = 0; h < 2; ++h) sum[n][p][h] = _mm256_fmadd_ps(value, key[p][h], sum[n][p][h]);
    }
  }
  const __m256 by = _mm256_set1_ps(scale);
  float* scores = queries.scores + i * kTileKeys + first * kPanelKeys;
#pragma GCC unroll 6
  for (int n = 0; n < N; ++n)
#pragma GCC unroll 4
    for (int p = 0; p < P; ++p)
#pragma GCC unroll 2
      for (int h = 0; h < 2; ++h)
        _mm256_storeu_ps(scores + n * kTileKeys + p * kPanelKeys + 8 * h, _mm256_mul_ps(sum[n][p][h], by));
}

/// Turns the scores of query i into weights and rescales what it has summed so far. kAll: it sees the whole
/// tile.
template <bool kAll>
void weigh(const AttendQueries& queries, int i, int64_t stride) {
  float* scores = queries.scores + i * kTileKeys;
  const __m256i first = _mm256_set1_epi32(queries.first[i] - 1);
  const __m256i last = _mm256_set1_epi32(queries.last[i]);
  const __m256i step = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  const __m256 none = _mm256_set1_ps(-__builtin_inff());
  const auto seen = [&](int v, __m256 value, __m256 otherwise) __attribute__((always_inline)) {
    if (kAll) return value;
    const __m256i key = _mm256_add_epi32(step, _mm256_set1_epi32(8 * v));
    const __m256i mask = _mm256_and_si256(_mm256_cmpgt_epi32(key, first), _mm256_cmpgt_epi32(last, key));
    return _mm256_blendv_ps(otherwise, value, _mm256_castsi256_ps(mask));
  };
  __m256 score[kVectors], top = none;
#pragma GCC unroll 8
  for (int v = 0; v < kVectors; ++v) {
    score[v] = _mm256_loadu_ps(scores + 8 * v);
    top = _mm256_max_ps(seen(v, score[v], none), top);
  }
  const float highest = fold_max(top), before = queries.max[i];
  const float now = before > highest ? before : highest;
  const __m256 base = _mm256_set1_ps(now);
#pragma GCC unroll 8
  for (int v = 0; v < kVectors; ++v) {
    score[v] = seen(v, exp2_lanes(_mm256_sub_ps(score[v], base)), _mm256_setzero_ps());
    _mm256_storeu_ps(scores + 8 * v, score[v]);
  }
  const __m256 low = _mm256_add_ps(_mm256_add_ps(score[0], score[1]), _mm256_add_ps(score[2], score[3]));
  const __m256 high = _mm256_add_ps(_mm256_add_ps(score[4], score[5]), _mm256_add_ps(score[6], score[7]));
  const float total = fold(_mm256_add_ps(low, high));
  queries.max[i] = now;
  if (before == now) {
    queries.sum[i] += total;
    return;
  }
  const __m256 keep = exp2_lanes(_mm256_set1_ps(before - now));
  queries.sum[i] = _mm_cvtss_f32(
      _mm_fmadd_ss(_mm_set_ss(queries.sum[i]), _mm256_castps256_ps128(keep), _mm_set_ss(total)));
  float* acc = queries.acc + i * stride;
  for (int64_t d = 0; d < stride; d += 8)
    _mm256_storeu_ps(acc + d, _mm256_mul_ps(_mm256_loadu_ps(acc + d), keep));
}

/// acc += weights times values for keys [first, last), N queries and V vectors of the head at a time.
template <int N, int V, class T>
void add_values(const TileOf<T>& tile, const AttendQueries& queries, int i, Range keys, int64_t d) {
  const int64_t stride = tile.stride;
  float* acc = queries.acc + i * stride + d;
  const float* weights = queries.scores + static_cast<int64_t>(i) * kTileKeys;
  __m256 sum[N][V];
#pragma GCC unroll 6
  for (int n = 0; n < N; ++n)
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) sum[n][v] = _mm256_loadu_ps(acc + n * stride + 8 * v);
  const T* values = tile.values + keys.first * stride + d;
  for (int64_t key = keys.first; key < keys.last; ++key, values += stride) {
    __m256 value[V];
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) {
      if (v % 4 == 0) ask(values + 8 * v, tile.next);
      value[v] = load8(values + 8 * v);
    }
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

struct Avx2 {
  static constexpr int kQueries = 6;

  template <int N, class T>
  static void score(const TileOf<T>& tile, const AttendQueries& queries, float scale, int i, int panels) {
    constexpr int P = N >= 4 ? 1 : N >= 2 ? 2 : 4;
    for (int p = 0; p < panels; p += P) score_panels<N, P>(tile, queries, scale, i, p);
  }

  static void weigh(const AttendQueries& queries, int i, int64_t stride) {
    if (queries.first[i] == 0 && queries.last[i] == kTileKeys)
      cpu::weigh<true>(queries, i, stride);
    else
      cpu::weigh<false>(queries, i, stride);
  }

  template <int N, class T>
  static void add(const TileOf<T>& tile, const AttendQueries& queries, int i, Range keys) {
    constexpr int V = N >= 4 ? 2 : N >= 2 ? 4 : 8;
    int64_t d = 0;
    for (; d + 8 * V <= tile.stride; d += 8 * V) add_values<N, V>(tile, queries, i, keys, d);
    for (; d < tile.stride; d += 8) add_values<N, 1>(tile, queries, i, keys, d);
  }

  static void softcap(float* x, int64_t n, float cap) { softcap_avx2(x, n, cap); }
};

}  // namespace

void attend_tile_avx2(const AttendTile& tile, const AttendQueries& queries) {
  attend_tile<Avx2>(tile, queries);
}

void merge_partial_avx2(const Partial& next, const Partial& into, int64_t n) {
  const float top = *into.max > *next.max ? *into.max : *next.max;
  const __m256 keep = exp2_lanes(_mm256_set1_ps(*into.max - top));
  const __m256 take = exp2_lanes(_mm256_set1_ps(*next.max - top));
  *into.max = top;
  *into.sum = _mm_cvtss_f32(_mm_fmadd_ss(_mm_set_ss(*next.sum), _mm256_castps256_ps128(take),
                                         _mm_mul_ss(_mm_set_ss(*into.sum), _mm256_castps256_ps128(keep))));
  for (int64_t d = 0; d < n; d += 8) {
    const __m256 kept = _mm256_mul_ps(_mm256_loadu_ps(into.acc + d), keep);
    _mm256_storeu_ps(into.acc + d, _mm256_fmadd_ps(_mm256_loadu_ps(next.acc + d), take, kept));
  }
}

/// Masked stores take dozens of instructions on some processors: only the tail has one.
void finish_partial_avx2(const Partial& from, int64_t n, float* out) {
  const __m256 inverse = _mm256_set1_ps(1.0f / *from.sum);
  int64_t d = 0;
  for (; d + 8 <= n; d += 8) _mm256_storeu_ps(out + d, _mm256_mul_ps(_mm256_loadu_ps(from.acc + d), inverse));
  if (d < n)
    _mm256_maskstore_ps(out + d, first_lanes(n - d), _mm256_mul_ps(_mm256_loadu_ps(from.acc + d), inverse));
}

}  // namespace penstock::exec::cpu
