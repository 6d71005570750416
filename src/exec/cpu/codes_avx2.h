// Packed codes of each layout as vectors of bytes: eight steps of four columns, byte 4r + i of a step is row
// r, column i. Every type has the same members, so that the loops over them are written once.
#pragma once

#include "exec/cpu/simd_avx2.h"

namespace penstock::exec::cpu {

/// What most layouts share: unsigned codes, of which kFlush products (of two columns each) fit 16 bits.
template <int kTop>
struct UnsignedCodes {
  const uint8_t* at;  // 32 columns of a strip

  explicit UnsignedCodes(const uint8_t* codes) : at(codes) {}

  static constexpr int kFlush = 32767 / (2 * 127 * kTop) >= 8 ? 8 : 32767 / (2 * 127 * kTop) >= 4 ? 4 : 2;
  static constexpr bool kSigned = false;

  static __m256i plain(__m256i code) { return code; }
};

template <int kShift>
static inline __m256i shift_right(__m256i v) {
  if constexpr (kShift > 0) return _mm256_srli_epi16(v, kShift);
  if constexpr (kShift < 0) return _mm256_slli_epi16(v, -kShift);
  return v;
}

/// Bits [kFrom, kFrom + n) of every byte moved to kTo, the others zero; kMask has n bits at kTo.
template <int kFrom, int kTo, int kMask>
static inline __m256i field(__m256i v) {
  return _mm256_and_si256(shift_right<kFrom - kTo>(v), _mm256_set1_epi8(static_cast<char>(kMask)));
}

struct TwoCodes : UnsignedCodes<3> {
  static constexpr int kBytes = 2 * kChunk;
  using UnsignedCodes::UnsignedCodes;

  template <int kStep>
  __m256i step() const {
    return field<kStep % 4 * 2, 0, 3>(load_bytes(at + kStep / 4 * 32));
  }
};

struct ThreeCodes : UnsignedCodes<7> {
  static constexpr int kBytes = 3 * kChunk;
  using UnsignedCodes::UnsignedCodes;

  template <int kStep>
  __m256i step() const {
    return _mm256_or_si256(field<kStep % 4 * 2, 0, 3>(load_bytes(at + kStep / 4 * 32)),
                           field<kStep, 2, 4>(load_bytes(at + 64)));
  }
};

struct FourCodes : UnsignedCodes<15> {
  static constexpr int kBytes = 4 * kChunk;
  using UnsignedCodes::UnsignedCodes;

  template <int kStep>
  __m256i step() const {
    return field<kStep % 2 * 4, 0, 15>(load_bytes(at + kStep / 2 * 32));
  }
};

struct FiveCodes : UnsignedCodes<31> {
  static constexpr int kBytes = 5 * kChunk;
  using UnsignedCodes::UnsignedCodes;

  template <int kStep>
  __m256i step() const {
    return _mm256_or_si256(field<kStep % 2 * 4, 0, 15>(load_bytes(at + kStep / 2 * 32)),
                           field<kStep, 4, 16>(load_bytes(at + 128)));
  }
};

struct SixCodes : UnsignedCodes<63> {
  static constexpr int kBytes = 6 * kChunk;
  using UnsignedCodes::UnsignedCodes;

  template <int kStep>
  __m256i step() const {
    return _mm256_or_si256(field<kStep % 2 * 4, 0, 15>(load_bytes(at + kStep / 2 * 32)),
                           field<kStep % 4 * 2, 4, 48>(load_bytes(at + 128 + kStep / 4 * 32)));
  }
};

struct Fp4Codes : UnsignedCodes<24> {
  static constexpr int kBytes = 4 * kChunk;
  using UnsignedCodes::UnsignedCodes;

  template <int kStep>
  __m256i step() const {
    const __m256i codes =
        _mm256_broadcastsi128_si256(_mm_setr_epi8(12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0));
    return _mm256_shuffle_epi8(codes, field<kStep % 2 * 4, 0, 15>(load_bytes(at + kStep / 2 * 32)));
  }
};

/// Signed bytes, 128 less than the code.
struct EightCodes {
  static constexpr int kBytes = 8 * kChunk;
  static constexpr int kFlush = 1;
  static constexpr bool kSigned = true;
  const uint8_t* at;

  explicit EightCodes(const uint8_t* codes) : at(codes) {}

  template <int kStep>
  __m256i step() const {
    return load_bytes(at + kStep * 32);
  }
  static __m256i plain(__m256i code) { return _mm256_xor_si256(code, _mm256_set1_epi8(-128)); }
};

/// Products of four columns of eight rows with four activations, summed by pairs to 16 bits.
template <bool kSigned>
static inline __m256i multiply_pairs(__m256i code, __m256i x4) {
  if constexpr (kSigned) return _mm256_maddubs_epi16(_mm256_abs_epi8(code), _mm256_sign_epi8(x4, code));
  return _mm256_maddubs_epi16(code, x4);
}

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
  GroupScales read(const uint8_t* block, int64_t group) const {
    const uint8_t* at = block + group * step_;
    if (type_ != ScaleType::kNested)
      return {one(at + scales_), has_bias_ ? one(at + biases_) : _mm256_setzero_ps()};
    const uint8_t* halves = block + code_bytes_;
    return {nested(halves, at + scales_),
            has_bias_ ? nested(halves + 2 * kStripRows, at + biases_) : _mm256_setzero_ps()};
  }

 private:
  __m256 one(const uint8_t* at) const {
    if (type_ == ScaleType::kF32) return _mm256_loadu_ps(reinterpret_cast<const float*>(at));
    if (type_ == ScaleType::kE8M0 || type_ == ScaleType::kE4M3) return small(at);
    const __m128i half = _mm_loadu_si128(reinterpret_cast<const __m128i*>(at));
    if (type_ == ScaleType::kF16) return _mm256_cvtph_ps(half);
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(half), 16));
  }

  __m256 small(const uint8_t* at) const {
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

  static __m256 nested(const uint8_t* halves, const uint8_t* at) {
    const __m256 outer = _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(halves)));
    const __m128i inner = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(at));
    return _mm256_mul_ps(outer, _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(inner)));
  }

  const ScaleType type_;
  const bool has_bias_;
  const int64_t code_bytes_, scales_, biases_, step_;
  const float factor_;
};

}  // namespace penstock::exec::cpu
