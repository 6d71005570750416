// Attention over one tile of keys with AVX-512, with the bits of every other table: a panel of keys is one
// vector. Tiles with scales go to the kernel of AVX2.
#include "exec/cpu/attention_tiles.h"
#include "exec/cpu/kernels_avx2.h"
#include "exec/cpu/kernels_avx512.h"
#include "exec/cpu/simd_avx512.h"

namespace penstock::exec::cpu {

namespace {

constexpr int kPanels = kTileKeys / kPanelKeys;

inline __attribute__((always_inline)) __m512 load16(const float* at) {
  return _mm512_loadu_ps(at);
}

inline __attribute__((always_inline)) __m512 load16(const uint16_t* at) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(at)));
}

/// The first eight numbers, the other lanes zero.
inline __attribute__((always_inline)) __m512 load8(const float* at) {
  return _mm512_maskz_loadu_ps(0xff, at);
}

inline __attribute__((always_inline)) __m512 load8(const uint16_t* at) {
  return _mm512_cvtph_ps(_mm256_zextsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(at))));
}

/// Asks for what lies `next` bytes after a place: only tiles that come straight from the cache are asked for.
template <class T>
inline __attribute__((always_inline)) void ask(const T* at, int64_t next) {
  if constexpr (sizeof(T) == 2) _mm_prefetch(reinterpret_cast<const char*>(at) + next, _MM_HINT_T1);
}

/// Scores of N queries for all four panels; those behind the last key hold anything.
template <int N, class T>
void score_tile(const Stored<T>& stored, const AttendQueries& queries, float scale, int i) {
  const int64_t dim = stored.dim, panel = dim * kPanelKeys, stride = stored.stride;
  const T* keys = stored.at;
  const float* q = queries.q + i * stride;
  __m512 sum[N][kPanels];
#pragma GCC unroll 6
  for (int n = 0; n < N; ++n)
#pragma GCC unroll 4
    for (int p = 0; p < kPanels; ++p) sum[n][p] = _mm512_setzero_ps();
  for (int64_t d = 0; d < dim; ++d, keys += kPanelKeys) {
    __m512 key[kPanels];
#pragma GCC unroll 4
    for (int p = 0; p < kPanels; ++p) {
      // A panel of half precision has half a line of each dimension: two panels take turns.
      if (p % 2 == 0) ask(keys + p * panel + d % 2 * panel, stored.next);
      key[p] = load16(keys + p * panel);
    }
#pragma GCC unroll 6
    for (int n = 0; n < N; ++n) {
      const __m512 value = _mm512_set1_ps(q[n * stride + d]);
#pragma GCC unroll 4
      for (int p = 0; p < kPanels; ++p) sum[n][p] = _mm512_fmadd_ps(value, key[p], sum[n][p]);
    }
  }
  const __m512 by = _mm512_set1_ps(scale);
  float* scores = queries.scores + i * kTileKeys;
#pragma GCC unroll 6
  for (int n = 0; n < N; ++n)
#pragma GCC unroll 4
    for (int p = 0; p < kPanels; ++p)
      _mm512_storeu_ps(scores + n * kTileKeys + p * kPanelKeys, _mm512_mul_ps(sum[n][p], by));
}

/// exp2_wide for x of at most zero (others: anything), in fewer instructions: adding 1.5 * 2^23 rounds to an
/// integer, which is then in the low bits.
inline __attribute__((always_inline)) __m512 exp2_below(__m512 x) {
  const __m512 magic = _mm512_set1_ps(12582912.0f);
  x = _mm512_max_ps(_mm512_set1_ps(-125.0f), x);
  const __m512 rounded = _mm512_add_ps(x, magic);
  const __m512 f = _mm512_sub_ps(x, _mm512_sub_ps(rounded, magic));
  __m512 p = _mm512_set1_ps(kExp2[5]);
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(kExp2[4]));
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(kExp2[3]));
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(kExp2[2]));
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(kExp2[1]));
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(kExp2[0]));
  const __m512i power = _mm512_slli_epi32(_mm512_castps_si512(rounded), 23);
  return _mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(p), power));
}

/// Keys of a panel that lie in [first, last).
inline __mmask16 seen_keys(int panel, int32_t first, int32_t last) {
  const auto below = [&](int32_t end) {
    const int32_t n = end - panel * kPanelKeys;
    return n <= 0 ? 0u : n >= kPanelKeys ? 0xffffu : (1u << n) - 1;
  };
  return static_cast<__mmask16>(below(last) & ~below(first));
}

/// acc += weights times values for keys [first, last), N queries and V vectors of the head at a time; kEight:
/// of the last vector only eight lanes.
template <int N, int V, bool kEight, class T>
void add_values(const Stored<T>& stored, const Adding& adding, Range keys, int64_t d) {
  const int64_t stride = stored.stride;
  float* acc = adding.acc + d;
  __m512 sum[N][V];
#pragma GCC unroll 6
  for (int n = 0; n < N; ++n)
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) {
      const float* at = acc + n * stride + 16 * v;
      sum[n][v] = kEight ? load8(at) : load16(at);
    }
  const T* values = stored.at + keys.first * stride + d;
  for (int64_t key = keys.first; key < keys.last; ++key, values += stride) {
    __m512 value[V];
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) {
      if (v % 2 == 0) ask(values + 16 * v, stored.next);
      value[v] = kEight ? load8(values + 16 * v) : load16(values + 16 * v);
    }
#pragma GCC unroll 6
    for (int n = 0; n < N; ++n) {
      const __m512 weight = _mm512_set1_ps(adding.weights[n * kTileKeys + key]);
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) sum[n][v] = _mm512_fmadd_ps(weight, value[v], sum[n][v]);
    }
  }
#pragma GCC unroll 6
  for (int n = 0; n < N; ++n)
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) {
      float* at = acc + n * stride + 16 * v;
      if (kEight)
        _mm512_mask_storeu_ps(at, 0xff, sum[n][v]);
      else
        _mm512_storeu_ps(at, sum[n][v]);
    }
}

struct Avx512 {
  static constexpr int kQueries = 6;
  static constexpr bool kCodes = false;

  template <int N, class T>
  static void score(const Stored<T>& keys, const AttendQueries& queries, float scale, int i, int) {
    score_tile<N>(keys, queries, scale, i);
  }

  static void weigh(const AttendQueries& queries, int i, int64_t stride) {
    if (queries.first[i] <= 0 && queries.last[i] >= kTileKeys)
      weigh_seen<true>(queries, i, stride);
    else
      weigh_seen<false>(queries, i, stride);
  }

  /// kAll: the query sees every key of the tile.
  template <bool kAll>
  static inline __attribute__((always_inline)) void weigh_seen(const AttendQueries& queries, int i,
                                                               int64_t stride) {
    float* scores = queries.scores + i * kTileKeys;
    __mmask16 seen[kPanels];
    __m512 score[kPanels], top = _mm512_set1_ps(-__builtin_inff());
#pragma GCC unroll 4
    for (int p = 0; p < kPanels; ++p) {
      score[p] = _mm512_loadu_ps(scores + p * kPanelKeys);
      if constexpr (!kAll) seen[p] = seen_keys(p, queries.first[i], queries.last[i]);
      top = kAll ? _mm512_max_ps(score[p], top) : _mm512_mask_max_ps(top, seen[p], score[p], top);
    }
    const float highest =
        fold_max(_mm256_max_ps(_mm512_castps512_ps256(top), _mm512_extractf32x8_ps(top, 1)));
    const float before = queries.max[i];
    const float now = before > highest ? before : highest;
#pragma GCC unroll 4
    for (int p = 0; p < kPanels; ++p) {
      const __m512 weight = exp2_below(_mm512_sub_ps(score[p], _mm512_set1_ps(now)));
      score[p] = kAll ? weight : _mm512_maskz_mov_ps(seen[p], weight);
      _mm512_storeu_ps(scores + p * kPanelKeys, score[p]);
    }
    const __m256 low = _mm256_add_ps(add_halves(score[0]), add_halves(score[1]));
    const __m256 high = _mm256_add_ps(add_halves(score[2]), add_halves(score[3]));
    const float total = fold(_mm256_add_ps(low, high));
    queries.max[i] = now;
    if (before == now) {
      queries.sum[i] += total;
      return;
    }
    const __m512 keep = exp2_wide(_mm512_set1_ps(before - now));
    queries.sum[i] = __builtin_fmaf(queries.sum[i], _mm512_cvtss_f32(keep), total);
    float* acc = queries.acc + i * stride;
    for (int64_t d = 0; d < stride; d += 8)
      _mm256_storeu_ps(acc + d, _mm256_mul_ps(_mm256_loadu_ps(acc + d), _mm512_castps512_ps256(keep)));
  }

  template <int N, class T>
  static void add(const Stored<T>& values, const Adding& adding, Range keys, Range dims) {
    int64_t d = dims.first;
    for (; d + 64 <= dims.last; d += 64) add_values<N, 4, false>(values, adding, keys, d);
    for (; d + 16 <= dims.last; d += 16) add_values<N, 1, false>(values, adding, keys, d);
    if (d < dims.last) add_values<N, 1, true>(values, adding, keys, d);
  }

  static void times(const float*, const float*, float*) {}  // no scales come here

  static void softcap(float* x, int64_t n, float cap) {
    softcap_avx2(x, n, cap);
  }
};

}  // namespace

void attend_tile_avx512(const AttendTile& tile, const AttendQueries& queries) {
  if (tile.key_scales != nullptr || tile.value_scales != nullptr) return attend_tile_avx2(tile, queries);
  attend_tile<Avx512>(tile, queries);
}

}  // namespace penstock::exec::cpu
