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

static inline __attribute__((always_inline)) __m256i load_codes(const void* at) {
  return _mm256_cvtepi8_epi32(_mm_loadl_epi64(static_cast<const __m128i*>(at)));
}

static inline __attribute__((always_inline)) __m256 load8(const int8_t* at) {
  return _mm256_cvtepi32_ps(load_codes(at));
}

static inline __attribute__((always_inline)) __m256 half_codes(const Nibbles* at, bool high) {
  const __m256i both = load_codes(at);
  return _mm256_cvtepi32_ps(_mm256_srai_epi32(high ? both : _mm256_slli_epi32(both, 28), high ? 4 : 28));
}

/// Eight keys of dimension `u` of those that lie together.
template <class T>
static inline __attribute__((always_inline)) __m256 key8(const T* at, int) {
  return load8(at);
}
static inline __attribute__((always_inline)) __m256 key8(const Nibbles* at, int u) {
  return half_codes(at, u == 1);
}

/// Vector v of a row of values.
template <class T>
static inline __attribute__((always_inline)) __m256 value8(const T* row, int v) {
  return load8(row + 8 * v);
}
static inline __attribute__((always_inline)) __m256 value8(const Nibbles* row, int v) {
  return half_codes(row + v / 4 * 16 + v % 2 * 8, v % 4 >= 2);
}

/// Asks for the line that lies `next` bytes after a place: only tiles that come straight from the cache are
/// asked for.
template <class T>
static inline __attribute__((always_inline)) void ask(const T* at, int64_t next) {
  if constexpr (sizeof(T) < 4) _mm_prefetch(reinterpret_cast<const char*>(at) + next, _MM_HINT_T0);
}

/// Of the lines of P panels at step `step`: each step asks for its share of those that the steps read.
template <int P, class T>
static inline __attribute__((always_inline)) void ask_keys(const T* keys, int64_t panel, int64_t step,
                                                           int64_t next) {
  constexpr int kSteps = 64 / (kPanelKeys * static_cast<int>(sizeof(T)));  // that read one line
  if constexpr (kSteps > 1) {
    const int64_t turn = step % kSteps;
#pragma GCC unroll 4
    for (int p = 0; p + kSteps <= P; p += kSteps) ask(keys + (p + turn) * panel, next);
    if (P % kSteps != 0 && turn < P) ask(keys + turn * panel, next);
  }
}

/// Scores of N queries for P panels of 16 keys from panel `first`.
template <int N, int P, class T>
void score_panels(const Stored<T>& stored, const AttendQueries& queries, float scale, int i, int first) {
  constexpr int kDims = kTogether<T>;
  const int64_t dim = stored.dim, panel = dim / kDims * kPanelKeys, stride = stored.stride;
  const T* keys = stored.at + first * panel;
  const float* q = queries.q + i * stride;
  float* scores = queries.scores + i * kTileKeys + first * kPanelKeys;
  const __m256 by = _mm256_set1_ps(scale);
  for (int64_t d = 0, g = 0; d < dim; ++g) {
    const int64_t end = d + stored.group < dim ? d + stored.group : dim;
    __m256 sum[N][P][2];
#pragma GCC unroll 6
    for (int n = 0; n < N; ++n)
#pragma GCC unroll 4
      for (int p = 0; p < P; ++p) sum[n][p][0] = sum[n][p][1] = _mm256_setzero_ps();
    for (; d < end; d += kDims, keys += kPanelKeys) {
      ask_keys<P>(keys, panel, d / kDims, stored.next);
#pragma GCC unroll 2
      for (int u = 0; u < kDims; ++u) {
        __m256 key[P][2];
#pragma GCC unroll 4
        for (int p = 0; p < P; ++p)
#pragma GCC unroll 2
          for (int h = 0; h < 2; ++h) key[p][h] = key8(keys + p * panel + 8 * h, u);
#pragma GCC unroll 6
        for (int n = 0; n < N; ++n) {
          const __m256 value = _mm256_set1_ps(q[n * stride + d + u]);
#pragma GCC unroll 4
          for (int p = 0; p < P; ++p)
#pragma GCC unroll 2
            for (int h = 0; h < 2; ++h) sum[n][p][h] = _mm256_fmadd_ps(value, key[p][h], sum[n][p][h]);
        }
      }
    }
#pragma GCC unroll 6
    for (int n = 0; n < N; ++n)
#pragma GCC unroll 4
      for (int p = 0; p < P; ++p)
#pragma GCC unroll 2
        for (int h = 0; h < 2; ++h) {
          const int at = p * kPanelKeys + 8 * h;
          __m256 score = sum[n][p][h];
          if (stored.scales != nullptr) {
            const __m256 scales = _mm256_loadu_ps(stored.scales + g * kTileKeys + first * kPanelKeys + at);
            score = g == 0 ? _mm256_mul_ps(score, scales)
                           : _mm256_fmadd_ps(score, scales, _mm256_loadu_ps(scores + n * kTileKeys + at));
          }
          _mm256_storeu_ps(scores + n * kTileKeys + at, end == dim ? _mm256_mul_ps(score, by) : score);
        }
  }
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

/// acc += weights times values for keys [first, last), N queries and V vectors of the head from dimension d
/// on. kFrom: which vector of 32 dimensions is the first, where that matters.
template <int N, int V, int kFrom, class T>
void add_from(const Stored<T>& stored, const Adding& adding, Range keys, int64_t d) {
  constexpr int kLine = 8 / static_cast<int>(sizeof(T)) * kTogether<T>;  // vectors
  const int64_t stride = stored.stride, pitch = row_pitch<T>(stride);
  float* acc = adding.acc + d;
  __m256 sum[N][V];
#pragma GCC unroll 6
  for (int n = 0; n < N; ++n)
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) sum[n][v] = _mm256_loadu_ps(acc + n * stride + 8 * v);
  const T* values = stored.at + keys.first * pitch + (d - 8 * kFrom) / kTogether<T>;
  for (int64_t key = keys.first; key < keys.last; ++key, values += pitch) {
    __m256 value[V];
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) {
      if (v % kLine == 0) ask(values + (kFrom + v) * 8 / kTogether<T>, stored.next);
      value[v] = value8(values, kFrom + v);
    }
#pragma GCC unroll 6
    for (int n = 0; n < N; ++n) {
      const __m256 weight = _mm256_set1_ps(adding.weights[n * kTileKeys + key]);
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
void add_values(const Stored<T>& values, const Adding& adding, Range keys, int64_t d) {
  if constexpr (kTogether<T> == 1 || V >= 4) {
    add_from<N, V, 0>(values, adding, keys, d);
  } else if constexpr (V == 2) {
    if (d % 32 == 0) return add_from<N, V, 0>(values, adding, keys, d);
    add_from<N, V, 2>(values, adding, keys, d);
  } else {
    if (d % 32 == 0) return add_from<N, V, 0>(values, adding, keys, d);
    if (d % 32 == 8) return add_from<N, V, 1>(values, adding, keys, d);
    if (d % 32 == 16) return add_from<N, V, 2>(values, adding, keys, d);
    add_from<N, V, 3>(values, adding, keys, d);
  }
}

struct Avx2 {
  static constexpr int kQueries = 6;
  static constexpr bool kCodes = true;

  template <int N, class T>
  static void score(const Stored<T>& keys, const AttendQueries& queries, float scale, int i, int panels) {
    constexpr int P = N >= 4 ? 1 : N >= 2 ? 2 : 4;
    for (int p = 0; p < panels; p += P) score_panels<N, P>(keys, queries, scale, i, p);
  }

  static void weigh(const AttendQueries& queries, int i, int64_t stride) {
    if (queries.first[i] == 0 && queries.last[i] == kTileKeys)
      cpu::weigh<true>(queries, i, stride);
    else
      cpu::weigh<false>(queries, i, stride);
  }

  template <int N, class T>
  static void add(const Stored<T>& values, const Adding& adding, Range keys, Range dims) {
    constexpr int V = N >= 4 ? 2 : N >= 2 ? 4 : 8;
    int64_t d = dims.first;
    for (; d + 8 * V <= dims.last; d += 8 * V) add_values<N, V>(values, adding, keys, d);
    if constexpr (V == 8)
      for (; d + 32 <= dims.last; d += 32) add_values<N, 4>(values, adding, keys, d);
    for (; d < dims.last; d += 8) add_values<N, 1>(values, adding, keys, d);
  }

  static void times(const float* a, const float* b, float* out) {
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v)
      _mm256_storeu_ps(out + 8 * v, _mm256_mul_ps(_mm256_loadu_ps(a + 8 * v), _mm256_loadu_ps(b + 8 * v)));
  }

  static void softcap(float* x, int64_t n, float cap) {
    softcap_avx2(x, n, cap);
  }
};

}  // namespace

void attend_tile_avx2(const AttendTile& tile, const AttendQueries& queries) {
  attend_tile<Avx2>(tile, queries);
}

void from_codes8_avx2(const int8_t* codes, int64_t n, float* out) {
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) _mm256_storeu_ps(out + i, load8(codes + i));
  for (; i < n; ++i) out[i] = codes[i];
}

void from_codes4_avx2(const uint8_t* codes, int64_t n, float* out) {
  const auto* from = reinterpret_cast<const Nibbles*>(codes);
  for (int64_t i = 0; i < n; i += 32, from += 16)
#pragma GCC unroll 4
    for (int v = 0; v < 4; ++v) _mm256_storeu_ps(out + i + 8 * v, value8(from, v));
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
