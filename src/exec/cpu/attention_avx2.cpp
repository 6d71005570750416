// Attention over one tile of keys: lanes are keys for the scores and head dimensions for the values. The
// arithmetic of a query does not depend on which queries share the loads.
#include "exec/cpu/kernels_avx2.h"
#include "exec/cpu/simd_avx2.h"

namespace penstock::exec::cpu {

namespace {

constexpr int kVectors = kTileKeys / 8;

/// A tile by the type its numbers are stored in. T: float, or uint16_t for half precision.
template <class T>
struct TileOf {
  const T *keys, *values;
  int64_t dim, stride;
  int64_t next;  // bytes from this tile to the one that is asked for meanwhile, 0: none

  explicit TileOf(const AttendTile& tile)
      : keys(static_cast<const T*>(tile.keys)),
        values(static_cast<const T*>(tile.values)),
        dim(tile.dim),
        stride(tile.value_stride),
        next(tile.next == nullptr
                 ? 0
                 : static_cast<const uint8_t*>(tile.next) - static_cast<const uint8_t*>(tile.keys)) {}
};

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
  softcap_avx2(queries.scores, n, queries.softcap);
  for (int64_t k = 0; k < n; k += 8)
    _mm256_storeu_ps(queries.scores + k,
                     _mm256_mul_ps(_mm256_loadu_ps(queries.scores + k), _mm256_set1_ps(kLog2E)));
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
  for (int i = 0; i < queries.n; ++i) {
    if (queries.first[i] == 0 && queries.last[i] == kTileKeys)
      weigh<true>(queries, i, tile.stride);
    else if (queries.first[i] < queries.last[i])
      weigh<false>(queries, i, tile.stride);
  }
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

void attend_tile_avx2(const AttendTile& tile, const AttendQueries& queries) {
  int last = 0;
  for (int i = 0; i < queries.n; ++i)
    if (queries.first[i] < queries.last[i] && queries.last[i] > last) last = queries.last[i];
  if (last == 0) return;
  if (tile.half)
    attend(TileOf<uint16_t>(tile), queries, last);
  else
    attend(TileOf<float>(tile), queries, last);
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
