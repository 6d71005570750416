// Quantising, norms, activations and the other row-wise kernels.
#include "exec/cpu/kernels_avx2.h"
#include "exec/cpu/rows_lanes.h"
#include "exec/cpu/simd_avx2.h"

namespace penstock::exec::cpu {

namespace {

/// Eight elements, and the last few of a row. Masked stores are slow here, so whole vectors avoid them.
struct Whole {
  static __m256 load(const float* at) { return _mm256_loadu_ps(at); }
  static void store(float* at, __m256 value) { _mm256_storeu_ps(at, value); }
};

struct Part {
  __m256i mask;

  __m256 load(const float* at) const { return _mm256_maskload_ps(at, mask); }
  void store(float* at, __m256 value) const { _mm256_maskstore_ps(at, mask, value); }
};

struct Narrow {
  using Floats = __m256;
  static Floats all(float value) { return _mm256_set1_ps(value); }
  static Floats times(Floats a, Floats b) { return _mm256_mul_ps(a, b); }
  static Floats plus(Floats a, Floats b) { return _mm256_add_ps(a, b); }
  static Floats over(Floats a, Floats b) { return _mm256_div_ps(a, b); }
  static Floats fma(Floats a, Floats b, Floats c) { return _mm256_fmadd_ps(a, b, c); }
  static Floats exp2(Floats x) { return exp2_lanes(x); }
  static Floats size(Floats x) { return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), x); }
  static Floats positive(Floats x) { return _mm256_max_ps(x, _mm256_setzero_ps()); }

  template <class Step>
  static inline __attribute__((always_inline)) void by_lanes(int64_t n, Step step) {
    int64_t i = 0;
    for (; i + 8 <= n; i += 8) step(i, Whole{});
    if (i < n) step(i, Part{first_lanes(n - i)});
  }
};

/// The codes of 8 values and their sum so far.
inline __m256i quantize_eight(const float* x, __m256 inverse) {
  const __m256i codes = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(x), inverse));
  return _mm256_max_epi32(codes, _mm256_set1_epi32(-127));
}

int32_t fold_integers(__m256i v) {
  __m128i a = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
  a = _mm_add_epi32(a, _mm_unpackhi_epi64(a, a));
  return _mm_cvtsi128_si32(a) + _mm_extract_epi32(a, 1);
}

}  // namespace

void quantize_row_avx2(const float* x, const QuantRows& out) {
  const __m256i positive = _mm256_set1_epi32(0x7fffffff);
  const __m256i byte_order = _mm256_setr_epi8(0, 4, 8, 12, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, 0,
                                              4, 8, 12, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1);
  const int64_t groups = out.cols / out.group;
  for (int64_t g = 0; g < groups; ++g) {
    const float* from = x + g * out.group;
    __m256i top = _mm256_setzero_si256();
    for (int c = 0; c < out.group; c += 8)
      top = _mm256_max_epu32(top, _mm256_and_si256(load_bytes(from + c), positive));
    __m128i half = _mm_max_epu32(_mm256_castsi256_si128(top), _mm256_extracti128_si256(top, 1));
    half = _mm_max_epu32(half, _mm_unpackhi_epi64(half, half));
    half = _mm_max_epu32(half, _mm_shuffle_epi32(half, 1));
    const float largest = _mm_cvtss_f32(_mm_castsi128_ps(half));
    const float scale = largest * (1.0f / 127.0f);
    const __m256 inverse = _mm256_set1_ps(scale > 0 ? 127.0f / largest : 0.0f);
    __m256i total = _mm256_setzero_si256();
    for (int c = 0; c < out.group; c += 8) {
      const __m256i codes = quantize_eight(from + c, inverse);
      total = _mm256_add_epi32(total, codes);
      const __m256i bytes = _mm256_shuffle_epi8(codes, byte_order);
      const __m128i packed =
          _mm_unpacklo_epi32(_mm256_castsi256_si128(bytes), _mm256_extracti128_si256(bytes, 1));
      _mm_storel_epi64(reinterpret_cast<__m128i*>(out.codes + g * out.group + c), packed);
    }
    const int32_t sum = fold_integers(total);
    out.scales[g] = scale;
    out.sums[g] = scale * static_cast<float>(sum);
    out.code_sums[g] = sum;
  }
}

void rms_norm_avx2(const float* x, const float* weight, int64_t n, float eps, float* out) {
  __m256 sum[4] = {_mm256_setzero_ps(), _mm256_setzero_ps(), _mm256_setzero_ps(), _mm256_setzero_ps()};
  int64_t i = 0;
  for (; i + 32 <= n; i += 32) {
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) {
      const __m256 v = _mm256_loadu_ps(x + i + 8 * j);
      sum[j] = _mm256_fmadd_ps(v, v, sum[j]);
    }
  }
#pragma GCC unroll 4
  for (int j = 0; j < 4; ++j) {
    if (i >= n) break;
    const __m256 v = _mm256_maskload_ps(x + i, first_lanes(n - i));
    sum[j] = _mm256_fmadd_ps(v, v, sum[j]);
    i += 8;
  }
  const __m256 all = _mm256_add_ps(_mm256_add_ps(sum[0], sum[1]), _mm256_add_ps(sum[2], sum[3]));
  const float mean = fold(all) / static_cast<float>(n) + eps;
  const float inverse = 1.0f / _mm_cvtss_f32(_mm_sqrt_ss(_mm_set_ss(mean)));
  scale_lanes<Narrow>(x, inverse, weight, n, out);
}

namespace {

/// The sum of step(lanes of x, sum so far) over a row, in the order of the twin. What lies behind the row
/// must add nothing: step gets a mask of its lanes.
template <class Step>
inline __attribute__((always_inline)) float sum_row(const float* x, int64_t n, Step step) {
  __m256 sum[4] = {_mm256_setzero_ps(), _mm256_setzero_ps(), _mm256_setzero_ps(), _mm256_setzero_ps()};
  const __m256i whole = _mm256_set1_epi32(-1);
  int64_t i = 0;
  for (; i + 32 <= n; i += 32) {
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) sum[j] = step(_mm256_loadu_ps(x + i + 8 * j), whole, sum[j]);
  }
#pragma GCC unroll 4
  for (int j = 0; j < 4; ++j) {
    if (i >= n) break;
    const __m256i mask = first_lanes(n - i);
    sum[j] = step(_mm256_maskload_ps(x + i, mask), mask, sum[j]);
    i += 8;
  }
  return fold(_mm256_add_ps(_mm256_add_ps(sum[0], sum[1]), _mm256_add_ps(sum[2], sum[3])));
}

}  // namespace

void layer_norm_avx2(const float* x, const float* weight, const float* bias, int64_t n, float eps,
                     float* out) {
  const float mean = sum_row(x, n, [](__m256 v, __m256i, __m256 sum) { return _mm256_add_ps(sum, v); }) /
                     static_cast<float>(n);
  const __m256 means = _mm256_set1_ps(mean);
  const float squares = sum_row(x, n, [&](__m256 v, __m256i mask, __m256 sum) {
    const __m256 d = _mm256_and_ps(_mm256_sub_ps(v, means), _mm256_castsi256_ps(mask));
    return _mm256_fmadd_ps(d, d, sum);
  });
  const float variance = squares / static_cast<float>(n) + eps;
  const __m256 inverse = _mm256_set1_ps(1.0f / _mm_cvtss_f32(_mm_sqrt_ss(_mm_set_ss(variance))));
  Narrow::by_lanes(n, [&](int64_t i, auto lanes) {
    const __m256 scaled = _mm256_mul_ps(_mm256_sub_ps(lanes.load(x + i), means), inverse);
    lanes.store(out + i, _mm256_fmadd_ps(scaled, lanes.load(weight + i), lanes.load(bias + i)));
  });
}

void activate_avx2(Gate function, const float* gate, const float* up, int64_t n, float* out) {
  activate_lanes<Narrow>(function, gate, up, n, out);
}

void add_avx2(const float* x, int64_t n, float* y) {
  add_lanes<Narrow>(x, n, y);
}

void rotate_avx2(float* x, const float* cos, const float* sin, int64_t half) {
  Narrow::by_lanes(half, [&](int64_t i, auto lanes) {
    const __m256 a = lanes.load(x + i), b = lanes.load(x + half + i);
    const __m256 c = lanes.load(cos + i), s = lanes.load(sin + i);
    lanes.store(x + i, _mm256_fmsub_ps(a, c, _mm256_mul_ps(b, s)));
    lanes.store(x + half + i, _mm256_fmadd_ps(b, c, _mm256_mul_ps(a, s)));
  });
}

void to_f16_avx2(const float* x, int64_t n, uint16_t* out) {
  const __m256 high = _mm256_set1_ps(65504.0f), low = _mm256_set1_ps(-65504.0f);
  const auto round = [&](__m256 value) {
    return _mm256_cvtps_ph(_mm256_max_ps(low, _mm256_min_ps(high, value)), _MM_FROUND_TO_NEAREST_INT);
  };
  int64_t i = 0;
  for (; i + 8 <= n; i += 8)
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out + i), round(_mm256_loadu_ps(x + i)));
  if (i == n) return;
  alignas(16) uint16_t rest[8];
  _mm_store_si128(reinterpret_cast<__m128i*>(rest), round(_mm256_maskload_ps(x + i, first_lanes(n - i))));
  __builtin_memcpy(out + i, rest, static_cast<size_t>(n - i) * 2);
}

void from_f16_avx2(const uint16_t* x, int64_t n, float* out) {
  // The cache of keys and values is read once a step, mostly from memory; what follows is the next head.
  constexpr int64_t kAhead = 1024;
  int64_t i = 0;
  for (; i + 32 <= n; i += 32) {
    _mm_prefetch(reinterpret_cast<const char*>(x + i + kAhead), _MM_HINT_T0);
#pragma GCC unroll 4
    for (int64_t k = i; k < i + 32; k += 8)
      _mm256_storeu_ps(out + k, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(x + k))));
  }
  for (; i + 8 <= n; i += 8)
    _mm256_storeu_ps(out + i, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(x + i))));
  if (i == n) return;
  alignas(16) uint16_t rest[8] = {};
  __builtin_memcpy(rest, x + i, static_cast<size_t>(n - i) * 2);
  const __m128i half = _mm_load_si128(reinterpret_cast<const __m128i*>(rest));
  _mm256_maskstore_ps(out + i, first_lanes(n - i), _mm256_cvtph_ps(half));
}

void softcap_avx2(float* x, int64_t n, float cap) {
  const __m256 inverse = _mm256_set1_ps(2.0f * kLog2E / cap), top = _mm256_set1_ps(cap);
  const __m256 one = _mm256_set1_ps(1.0f), two = _mm256_set1_ps(2.0f);
  Narrow::by_lanes(n, [&](int64_t i, auto lanes) {
    const __m256 e = exp2_lanes(_mm256_mul_ps(lanes.load(x + i), inverse));
    const __m256 tanh = _mm256_sub_ps(one, _mm256_div_ps(two, _mm256_add_ps(one, e)));
    lanes.store(x + i, _mm256_mul_ps(top, tanh));
  });
}

}  // namespace penstock::exec::cpu
