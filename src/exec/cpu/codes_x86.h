// Packed codes of each layout as vectors of bytes: eight steps of four columns, byte 4r + i of a step is row
// r, column i. Every type has the same members, so that the loops over them are written once, and is made for
// a vector type V: Ymm holds one strip, Zmm (simd_avx512.h) a pair. All of it is private to the file that
// includes it: code built for one processor must not be merged with code built for another.
#pragma once

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
  static Int look_up(__m128i table, Int v) {
    return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(table), v);
  }

  template <int kShift>  // to the right; the bits of two bytes mix
  static Int shift(Int v) {
    if constexpr (kShift > 0) return _mm256_srli_epi16(v, kShift);
    if constexpr (kShift < 0) return _mm256_slli_epi16(v, -kShift);
    return v;
  }
};

/// Bits from kFrom on of every byte moved to kTo, and there those of kMask.
template <class V, int kFrom, int kTo, int kMask>
inline typename V::Int field(typename V::Int v) {
  return V::keep(V::template shift<kFrom - kTo>(v), kMask);
}

/// What the layouts share: 32 columns of a strip, whose unsigned codes are at most kTop, so that kFlush
/// products (of two columns each) fit 16 bits.
template <class V, int kTop>
struct UnsignedCodes {
  using Vector = V;
  static constexpr int kFlush = 32767 / (2 * 127 * kTop) >= 8 ? 8 : 32767 / (2 * 127 * kTop) >= 4 ? 4 : 2;
  static constexpr bool kSigned = false;
  typename V::Place at;

  explicit UnsignedCodes(typename V::Place codes) : at(codes) {}
  static typename V::Int plain(typename V::Int code) { return code; }

  template <int kStep>
  typename V::Int in_four() const {
    return field<V, kStep % 2 * 4, 0, 15>(V::load(at, kStep / 2 * 32));
  }
};

template <class V>
struct TwoCodes : UnsignedCodes<V, 3> {
  static constexpr int kBytes = 2 * kChunk;
  using UnsignedCodes<V, 3>::UnsignedCodes;

  template <int kStep>
  typename V::Int step() const {
    return field<V, kStep % 4 * 2, 0, 3>(V::load(this->at, kStep / 4 * 32));
  }
};

template <class V>
struct ThreeCodes : UnsignedCodes<V, 7> {
  static constexpr int kBytes = 3 * kChunk;
  using UnsignedCodes<V, 7>::UnsignedCodes;

  template <int kStep>
  typename V::Int step() const {
    return V::either(field<V, kStep % 4 * 2, 0, 3>(V::load(this->at, kStep / 4 * 32)),
                     field<V, kStep, 2, 4>(V::load(this->at, 64)));
  }
};

template <class V>
struct FourCodes : UnsignedCodes<V, 15> {
  static constexpr int kBytes = 4 * kChunk;
  using UnsignedCodes<V, 15>::UnsignedCodes;

  template <int kStep>
  typename V::Int step() const {
    return this->template in_four<kStep>();
  }
};

template <class V>
struct FiveCodes : UnsignedCodes<V, 31> {
  static constexpr int kBytes = 5 * kChunk;
  using UnsignedCodes<V, 31>::UnsignedCodes;

  template <int kStep>
  typename V::Int step() const {
    return V::either(this->template in_four<kStep>(), field<V, kStep, 4, 16>(V::load(this->at, 128)));
  }
};

template <class V>
struct SixCodes : UnsignedCodes<V, 63> {
  static constexpr int kBytes = 6 * kChunk;
  using UnsignedCodes<V, 63>::UnsignedCodes;

  template <int kStep>
  typename V::Int step() const {
    return V::either(this->template in_four<kStep>(),
                     field<V, kStep % 4 * 2, 4, 48>(V::load(this->at, 128 + kStep / 4 * 32)));
  }
};

template <class V>
struct Fp4Codes : UnsignedCodes<V, 24> {
  static constexpr int kBytes = 4 * kChunk;
  using UnsignedCodes<V, 24>::UnsignedCodes;

  template <int kStep>
  typename V::Int step() const {
    const __m128i codes = _mm_setr_epi8(12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0);
    return V::look_up(codes, this->template in_four<kStep>());
  }
};

/// Signed bytes, 128 less than the code.
template <class V>
struct EightCodes {
  using Vector = V;
  static constexpr int kBytes = 8 * kChunk;
  static constexpr int kFlush = 1;
  static constexpr bool kSigned = true;
  typename V::Place at;

  explicit EightCodes(typename V::Place codes) : at(codes) {}
  static typename V::Int plain(typename V::Int code) { return V::flip(code); }

  template <int kStep>
  typename V::Int step() const {
    return V::load(at, kStep * 32);
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
