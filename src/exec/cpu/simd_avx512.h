// What the AVX-512 kernels share. Private to the file that includes it.
#pragma once

#include "exec/cpu/codes_x86.h"

namespace penstock::exec::cpu {

namespace {

/// Vectors of a pair of strips: rows of the first in lanes 0..7, of the second in lanes 8..15.
struct Zmm {
  using Int = __m512i;
  struct Place {
    const uint8_t *low, *high;
    Place operator+(int64_t bytes) const { return {low + bytes, high + bytes}; }
  };

  static Int load(Place at, int64_t offset) {
    return _mm512_inserti64x4(_mm512_castsi256_si512(load_bytes(at.low + offset)),
                              load_bytes(at.high + offset), 1);
  }
  static Int either(Int a, Int b) { return _mm512_or_si512(a, b); }
  static Int flip(Int v) { return _mm512_xor_si512(v, _mm512_set1_epi8(-128)); }
  static Int keep(Int v, int mask) { return _mm512_and_si512(v, _mm512_set1_epi8(static_cast<char>(mask))); }
  static Int look_up(const uint8_t* table, Int v) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(table));
    return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(bytes), v);
  }

  template <int kShift>
  static Int shift(Int v) {
    if constexpr (kShift > 0) return _mm512_srli_epi16(v, kShift);
    if constexpr (kShift < 0) return _mm512_slli_epi16(v, -kShift);
    return v;
  }
};

inline __m512 join(__m256 low, __m256 high) {
  return _mm512_insertf32x8(_mm512_castps256_ps512(low), high, 1);
}

/// exp2_scalar on 16 lanes.
inline __m512 exp2_wide(__m512 x) {
  x = _mm512_min_ps(_mm512_set1_ps(126.0f), _mm512_max_ps(_mm512_set1_ps(-125.0f), x));
  const __m512 n = _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  const __m512 f = _mm512_sub_ps(x, n);
  __m512 p = _mm512_set1_ps(kExp2[5]);
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(kExp2[4]));
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(kExp2[3]));
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(kExp2[2]));
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(kExp2[1]));
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(kExp2[0]));
  const __m512i power = _mm512_slli_epi32(_mm512_cvtps_epi32(n), 23);
  return _mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(p), power));
}

/// The upper half of the lanes added to the lower.
inline __m256 add_halves(__m512 v) {
  return _mm256_add_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
}

/// Scales and biases of one group of a pair of strips.
struct PairScales {
  __m512 scale, bias;
};

/// Four activations in every lane.
inline __m512i spread4(const int8_t* at) {
  int32_t value;
  __builtin_memcpy(&value, at, sizeof(value));
  return _mm512_set1_epi32(value);
}

/// acc takes the exact sum of a group, the activations' scale being a and their sum b.
inline __m512 take_group_sum(__m512 acc, const PairScales& w, bool has_bias, __m512i sum, float a, float b) {
  acc = _mm512_fmadd_ps(_mm512_mul_ps(w.scale, _mm512_set1_ps(a)), _mm512_cvtepi32_ps(sum), acc);
  return has_bias ? _mm512_fmadd_ps(w.bias, _mm512_set1_ps(b), acc) : acc;
}

}  // namespace

}  // namespace penstock::exec::cpu
