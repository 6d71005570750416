// Packed codes of each layout as vectors of bytes: eight steps of four columns, byte 4r + i of a step is row
// r, column i. Every type has the same members, so that the loops over them are written once, and is made for
// a vector type V of some processor: Ymm holds one strip, Zmm a pair, NeonPair one. All of it is private to
// the file that includes it: code built for one processor must not be merged with code built for another.
#pragma once

#include "exec/cpu/kernels.h"

namespace penstock::exec::cpu {

namespace {

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
  static constexpr bool kSigned = false, kFloat = false, kRaised = false;
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
  static constexpr bool kSixteens = takes_sixteens(CodeLayout::kTwo), kRaised = true;
  using UnsignedCodes<V, 3>::UnsignedCodes;

  /// Steps 4 to 7 lie two bits higher than steps 0 to 3.
  template <int kStep>
  typename V::Int step() const {
    return field<V, kStep % 2 * 4 + kStep / 4 * 2, 0, 3>(V::load(this->at, kStep % 4 / 2 * 32));
  }

  /// The same without a shift of two bits: steps 4 to 7 are four times the code.
  template <int kStep>
  typename V::Int raised() const {
    constexpr int kUp = kStep / 4 * 2;
    return field<V, kStep % 2 * 4 + kUp, kUp, 3 << kUp>(V::load(this->at, kStep % 4 / 2 * 32));
  }
};

template <class V>
struct ThreeCodes : UnsignedCodes<V, 7> {
  static constexpr int kBytes = 3 * kChunk;
  static constexpr bool kSixteens = takes_sixteens(CodeLayout::kThree);
  using UnsignedCodes<V, 7>::UnsignedCodes;

  template <int kStep>
  typename V::Int step() const {
    const auto& at = this->at;
    if constexpr (kStep < 6) return field<V, kStep % 2 * 3, 0, 7>(V::load(at, kStep / 2 * 32));
    return V::either(field<V, 6, 0, 3>(V::load(at, kStep % 2 * 32)), field<V, kStep, 2, 4>(V::load(at, 64)));
  }
};

template <class V>
struct FourCodes : UnsignedCodes<V, 15> {
  static constexpr int kBytes = 4 * kChunk;
  static constexpr bool kSixteens = takes_sixteens(CodeLayout::kFour);
  using UnsignedCodes<V, 15>::UnsignedCodes;

  template <int kStep>
  typename V::Int step() const {
    return this->template in_four<kStep>();
  }
};

template <class V>
struct FiveCodes : UnsignedCodes<V, 31> {
  static constexpr int kBytes = 5 * kChunk;
  static constexpr bool kSixteens = takes_sixteens(CodeLayout::kFive);
  using UnsignedCodes<V, 31>::UnsignedCodes;

  template <int kStep>
  typename V::Int step() const {
    const auto& at = this->at;
    if constexpr (kStep < 5) return V::keep(V::load(at, kStep * 32), 31);
    const auto low = field<V, 5, 0, 7>(V::load(at, (kStep - 5) * 64));
    if constexpr (kStep < 7)
      return V::either(low, field<V, 5, 3, 24>(V::load(at, (kStep - 5) * 64 + 32)));
    else
      return V::either(low,
                       V::either(field<V, 7, 3, 8>(V::load(at, 32)), field<V, 7, 4, 16>(V::load(at, 96))));
  }
};

template <class V>
struct SixCodes : UnsignedCodes<V, 63> {
  static constexpr int kBytes = 6 * kChunk;
  static constexpr bool kSixteens = takes_sixteens(CodeLayout::kSix);
  using UnsignedCodes<V, 63>::UnsignedCodes;

  template <int kStep>
  typename V::Int step() const {
    const auto& at = this->at;
    if constexpr (kStep < 6) return V::keep(V::load(at, kStep * 32), 63);
    constexpr int kFirst = kStep % 2 * 96;
    return V::either(field<V, 6, 0, 3>(V::load(at, kFirst)),
                     V::either(field<V, 6, 2, 12>(V::load(at, kFirst + 32)),
                               field<V, 6, 4, 48>(V::load(at, kFirst + 64))));
  }
};

/// Twice each E2M1 number plus 12.
constexpr uint8_t kFp4Codes[16] = {12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0};

template <class V>
struct Fp4Codes : UnsignedCodes<V, 24> {
  static constexpr int kBytes = 4 * kChunk;
  static constexpr bool kSixteens = takes_sixteens(CodeLayout::kFp4), kFloat = true;
  using UnsignedCodes<V, 24>::UnsignedCodes;

  template <int kStep>
  typename V::Int step() const {
    return V::look_up(kFp4Codes, this->template in_four<kStep>());
  }
};

/// Signed bytes, 128 less than the code.
template <class V>
struct EightCodes {
  using Vector = V;
  static constexpr int kBytes = 8 * kChunk;
  static constexpr int kFlush = 1;
  static constexpr bool kSigned = true, kFloat = false, kRaised = false;
  static constexpr bool kSixteens = takes_sixteens(CodeLayout::kEight);
  typename V::Place at;

  explicit EightCodes(typename V::Place codes) : at(codes) {}
  static typename V::Int plain(typename V::Int code) { return V::flip(code); }

  template <int kStep>
  typename V::Int step() const {
    return V::load(at, kStep * 32);
  }
};

/// Reads scales as PackedCodes lays them out; V::Floats holds those of a strip.
template <class V>
class ScalesOf {
 public:
  using Floats = typename V::Floats;
  struct Group {
    Floats scale, bias;
  };

  explicit ScalesOf(const PackedCodes& w)
      : type_(w.scale_type),
        has_bias_(w.has_bias()),
        code_bytes_(w.code_bytes()),
        scales_(w.scales_at()),
        biases_(w.biases_at()),
        step_(w.group_scale_bytes()),
        factor_(w.scale_factor) {}

  bool has_bias() const { return has_bias_; }

  /// Of one group; the bias is zero where none is stored.
  inline __attribute__((always_inline)) Group read(const uint8_t* block, int64_t group) const {
    const uint8_t* at = block + group * step_;
    const uint8_t* halves = block + code_bytes_;
    if (type_ == ScaleType::kPaired)
      return {V::times(V::f16(halves), V::template nibble<0>(at + scales_)),
              V::times(V::f16(halves + 2 * kStripRows), V::template nibble<4>(at + scales_))};
    if (type_ != ScaleType::kNested) return {one(at + scales_), has_bias_ ? one(at + biases_) : V::all(0)};
    return {V::times(V::f16(halves), V::int8(at + scales_)),
            has_bias_ ? V::times(V::f16(halves + 2 * kStripRows), V::int8(at + biases_)) : V::all(0)};
  }

 private:
  inline __attribute__((always_inline)) Floats one(const uint8_t* at) const {
    if (type_ == ScaleType::kF32) return V::f32(at);
    if (type_ == ScaleType::kE8M0) return V::times(V::all(factor_), V::e8m0(at));
    if (type_ == ScaleType::kE4M3) return V::times(V::all(factor_), V::e4m3(at));
    return type_ == ScaleType::kF16 ? V::f16(at) : V::bf16(at);
  }

  const ScaleType type_;
  const bool has_bias_;
  const int64_t code_bytes_, scales_, biases_, step_;
  const float factor_;
};

/// call.operator()<C>() with the codes C of the layout.
template <class V, class Call>
inline void with_codes(CodeLayout layout, const Call& call) {
  switch (layout) {
    case CodeLayout::kTwo:
      return call.template operator()<TwoCodes<V>>();
    case CodeLayout::kThree:
      return call.template operator()<ThreeCodes<V>>();
    case CodeLayout::kFour:
      return call.template operator()<FourCodes<V>>();
    case CodeLayout::kFive:
      return call.template operator()<FiveCodes<V>>();
    case CodeLayout::kSix:
      return call.template operator()<SixCodes<V>>();
    case CodeLayout::kEight:
      return call.template operator()<EightCodes<V>>();
    case CodeLayout::kFp4:
      return call.template operator()<Fp4Codes<V>>();
    case CodeLayout::kFp8:
      break;  // no integers
  }
}

}  // namespace

}  // namespace penstock::exec::cpu
