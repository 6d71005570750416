// Quantising, norms and activations with AVX-512, with the bits of every other table.
#include "exec/cpu/kernels_avx2.h"
#include "exec/cpu/kernels_avx512.h"
#include "exec/cpu/rows_lanes.h"
#include "exec/cpu/simd_avx512.h"

namespace penstock::exec::cpu {

namespace {

/// The first lanes of a vector.
struct Lanes16 {
  __mmask16 mask;

  __m512 load(const float* at) const { return _mm512_maskz_loadu_ps(mask, at); }
  void store(float* at, __m512 value) const { _mm512_mask_storeu_ps(at, mask, value); }
};

Lanes16 first_lanes16(int64_t n) {
  return {static_cast<__mmask16>(n >= 16 ? 0xffffu : (1u << n) - 1)};
}

struct All16 {
  static __m512 load(const float* at) { return _mm512_loadu_ps(at); }
  static void store(float* at, __m512 value) { _mm512_storeu_ps(at, value); }
};

struct Wide {
  using Floats = __m512;
  static Floats all(float value) { return _mm512_set1_ps(value); }
  static Floats times(Floats a, Floats b) { return _mm512_mul_ps(a, b); }
  static Floats plus(Floats a, Floats b) { return _mm512_add_ps(a, b); }
  static Floats over(Floats a, Floats b) { return _mm512_div_ps(a, b); }
  static Floats fma(Floats a, Floats b, Floats c) { return _mm512_fmadd_ps(a, b, c); }
  static Floats exp2(Floats x) { return exp2_wide(x); }
  static Floats size(Floats x) { return _mm512_andnot_ps(_mm512_set1_ps(-0.0f), x); }
  static Floats positive(Floats x) { return _mm512_max_ps(x, _mm512_setzero_ps()); }

  template <class Step>
  static inline __attribute__((always_inline)) void by_lanes(int64_t n, Step step) {
    int64_t i = 0;
    for (; i + 16 <= n; i += 16) step(i, All16{});
    if (i < n) step(i, first_lanes16(n - i));
  }
};

/// N vectors of 16 columns: one group. The largest is found among bits, where a NaN is larger than numbers.
template <int N>
inline __attribute__((always_inline)) void quantize_group(const float* x, const QuantRows& out, int64_t g) {
  const __m512i positive = _mm512_set1_epi32(0x7fffffff);
  __m512 value[N];
  __m512i top = _mm512_setzero_si512();
#pragma GCC unroll 8
  for (int i = 0; i < N; ++i) {
    value[i] = _mm512_loadu_ps(x + 16 * i);
    top = _mm512_max_epu32(top, _mm512_and_si512(_mm512_castps_si512(value[i]), positive));
  }
  const __m256i half = _mm256_max_epu32(_mm512_castsi512_si256(top), _mm512_extracti64x4_epi64(top, 1));
  __m128i most = _mm_max_epu32(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1));
  most = _mm_max_epu32(most, _mm_unpackhi_epi64(most, most));
  most = _mm_max_epu32(most, _mm_shuffle_epi32(most, 1));
  const float largest = _mm_cvtss_f32(_mm_castsi128_ps(most));
  const float scale = largest * (1.0f / 127.0f);
  const __m512 inverse = _mm512_set1_ps(scale > 0 ? 127.0f / largest : 0.0f);
  __m512i total = _mm512_setzero_si512();
#pragma GCC unroll 8
  for (int i = 0; i < N; ++i) {
    __m512i codes = _mm512_cvtps_epi32(_mm512_mul_ps(value[i], inverse));
    codes = _mm512_max_epi32(codes, _mm512_set1_epi32(-127));
    total = _mm512_add_epi32(total, codes);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out.codes + g * 16 * N + 16 * i),
                     _mm512_cvtepi32_epi8(codes));
  }
  const int32_t sum = _mm512_reduce_add_epi32(total);
  out.scales[g] = scale;
  out.sums[g] = scale * static_cast<float>(sum);
  out.code_sums[g] = sum;
}

template <int N>
void quantize_groups(const float* x, const QuantRows& out) {
  for (int64_t g = 0; g < out.cols / (16 * N); ++g) quantize_group<N>(x + g * 16 * N, out, g);
}

}  // namespace

void quantize_row_avx512(const float* x, const QuantRows& out) {
  if (out.group == 16) return quantize_groups<1>(x, out);
  if (out.group == 32) return quantize_groups<2>(x, out);
  if (out.group == 64) return quantize_groups<4>(x, out);
  quantize_groups<8>(x, out);
}

void rms_norm_avx512(const float* x, const float* weight, int64_t n, float eps, float* out) {
  __m512 low = _mm512_setzero_ps(), high = _mm512_setzero_ps();  // running sums 0..15 and 16..31
  int64_t i = 0;
  for (; i + 32 <= n; i += 32) {
    const __m512 a = _mm512_loadu_ps(x + i), b = _mm512_loadu_ps(x + i + 16);
    low = _mm512_fmadd_ps(a, a, low);
    high = _mm512_fmadd_ps(b, b, high);
  }
  if (i < n) {
    const __m512 a = first_lanes16(n - i).load(x + i);
    low = _mm512_fmadd_ps(a, a, low);
    if (i + 16 < n) {
      const __m512 b = first_lanes16(n - i - 16).load(x + i + 16);
      high = _mm512_fmadd_ps(b, b, high);
    }
  }
  const float mean = fold(_mm256_add_ps(add_halves(low), add_halves(high))) / static_cast<float>(n) + eps;
  const float inverse = 1.0f / _mm_cvtss_f32(_mm_sqrt_ss(_mm_set_ss(mean)));
  scale_lanes<Wide>(x, inverse, weight, n, out);
}

void activate_avx512(Gate function, const float* gate, const float* up, int64_t n, float* out) {
  activate_lanes<Wide>(function, gate, up, n, out);
}

void add_avx512(const float* x, int64_t n, float* y) {
  add_lanes<Wide>(x, n, y);
}

}  // namespace penstock::exec::cpu
