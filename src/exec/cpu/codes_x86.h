// What vectors of one strip are on x86, and how scales are read there. Private to the file that includes it.
#pragma once

#include "exec/cpu/codes.h"
#include "exec/cpu/simd_avx2.h"

namespace penstock::exec::cpu {

namespace {

/// Vectors of one strip.
struct Ymm {
  using Int = __m256i;
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
};

/// Eight scales and biases of one group.
struct GroupScales {
  __m256 scale, bias;
};

/// Reads scales as PackedCodes lays them out.
class ScaleReader {
 public:
  explicit ScaleReader(const PackedCodes& w)
      : type_(w.scale_type),
        has_bias_(w.has_bias()),
        code_bytes_(w.code_bytes()),
        scales_(w.scales_at()),
        biases_(w.biases_at()),
        step_(w.group_scale_bytes()),
        factor_(w.scale_factor) {}

  bool has_bias() const { return has_bias_; }
  int64_t at() const { return scales_; }

  /// The bias is zero where none is stored.
  inline __attribute__((always_inline)) GroupScales read(const uint8_t* block, int64_t group) const {
    const uint8_t* at = block + group * step_;
    if (type_ != ScaleType::kNested)
      return {one(at + scales_), has_bias_ ? one(at + biases_) : _mm256_setzero_ps()};
    const uint8_t* halves = block + code_bytes_;
    return {nested(halves, at + scales_),
            has_bias_ ? nested(halves + 2 * kStripRows, at + biases_) : _mm256_setzero_ps()};
  }

 private:
  inline __attribute__((always_inline)) __m256 one(const uint8_t* at) const {
    if (type_ == ScaleType::kF32) return _mm256_loadu_ps(reinterpret_cast<const float*>(at));
    if (type_ == ScaleType::kE8M0 || type_ == ScaleType::kE4M3) return small(at);
    const __m128i half = _mm_loadu_si128(reinterpret_cast<const __m128i*>(at));
    if (type_ == ScaleType::kF16) return _mm256_cvtph_ps(half);
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(half), 16));
  }

  inline __attribute__((always_inline)) __m256 small(const uint8_t* at) const {
    const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(at));
    const __m256 factor = _mm256_set1_ps(factor_);
    if (type_ == ScaleType::kE8M0)
      return _mm256_mul_ps(factor, _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu8_epi32(bytes), 23)));
    const __m128i wide = _mm_cvtepu8_epi16(bytes);
    const __m128i sign = _mm_slli_epi16(_mm_and_si128(wide, _mm_set1_epi16(0x80)), 8);
    const __m128i rest = _mm_slli_epi16(_mm_and_si128(wide, _mm_set1_epi16(0x7f)), 7);
    const __m256 value = _mm256_cvtph_ps(_mm_or_si128(sign, rest));
    return _mm256_mul_ps(factor, _mm256_mul_ps(_mm256_set1_ps(256), value));
  }

  static inline __attribute__((always_inline)) __m256 nested(const uint8_t* halves, const uint8_t* at) {
    const __m256 outer = _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(halves)));
    const __m128i inner = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(at));
    return _mm256_mul_ps(outer, _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(inner)));
  }

  const ScaleType type_;
  const bool has_bias_;
  const int64_t code_bytes_, scales_, biases_, step_;
  const float factor_;
};

}  // namespace

}  // namespace penstock::exec::cpu
