// What vectors of one strip are on x86, and how scales are read there. Private to the file that includes it.
#pragma once

#include "exec/cpu/codes.h"
#include "exec/cpu/simd_avx2.h"

namespace penstock::exec::cpu {

namespace {

/// Vectors of one strip.
struct Ymm {
  using Int = __m256i;
  using Floats = __m256;
  using Place = const uint8_t*;

  static Int load(Place at, int64_t offset) { return load_bytes(at + offset); }
  static Int either(Int a, Int b) { return _mm256_or_si256(a, b); }
  static Int flip(Int v) { return _mm256_xor_si256(v, _mm256_set1_epi8(-128)); }
  static Int keep(Int v, int mask) { return _mm256_and_si256(v, _mm256_set1_epi8(static_cast<char>(mask))); }
  static Int look_up(const uint8_t* table, Int v) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(table));

    return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(bytes), v);
  }

  template <int kShift>  // to the right; the bits of two bytes mix
  static Int shift(Int v) {
    if constexpr (kShift > 0) return _mm256_srli_epi16(v, kShift);
    if constexpr (kShift < 0) return _mm256_slli_epi16(v, -kShift);
    return v;
  }

  // Eight scales of one type.
  static Floats all(float value) { return _mm256_set1_ps(value); }
  static Floats times(Floats a, Floats b) { return _mm256_mul_ps(a, b); }
  static Floats f32(const uint8_t* at) { return _mm256_loadu_ps(reinterpret_cast<const float*>(at)); }
  static Floats f16(const uint8_t* at) { return _mm256_cvtph_ps(sixteen(at)); }
  static Floats bf16(const uint8_t* at) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(sixteen(at)), 16));
  }
  static Floats int8(const uint8_t* at) { return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(eight(at))); }
  template <int kFrom>
  static Floats nibble(const uint8_t* at) {
    const __m256i wide = _mm256_srli_epi32(_mm256_cvtepu8_epi32(eight(at)), kFrom);
    return _mm256_cvtepi32_ps(_mm256_and_si256(wide, _mm256_set1_epi32(15)));
  }
  static Floats e8m0(const uint8_t* at) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu8_epi32(eight(at)), 23));
  }
  static Floats e4m3(const uint8_t* at) {
    const __m128i wide = _mm_cvtepu8_epi16(eight(at));
    const __m128i sign = _mm_slli_epi16(_mm_and_si128(wide, _mm_set1_epi16(0x80)), 8);
    const __m128i rest = _mm_slli_epi16(_mm_and_si128(wide, _mm_set1_epi16(0x7f)), 7);
    return times(all(256), _mm256_cvtph_ps(_mm_or_si128(sign, rest)));
  }

 private:
  static __m128i sixteen(const uint8_t* at) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(at)); }
  static __m128i eight(const uint8_t* at) { return _mm_loadl_epi64(reinterpret_cast<const __m128i*>(at)); }
};

using ScaleReader = ScalesOf<Ymm>;
using GroupScales = ScaleReader::Group;

}  // namespace

}  // namespace penstock::exec::cpu
