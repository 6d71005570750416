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

/// Twice each E2M1 number plus 12.
constexpr uint8_t kFp4Codes[16] = {12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0};

template <class V>
struct Fp4Codes : UnsignedCodes<V, 24> {
  static constexpr int kBytes = 4 * kChunk;
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
  static constexpr bool kSigned = true;
  typename V::Place at;

  explicit EightCodes(typename V::Place codes) : at(codes) {}
  static typename V::Int plain(typename V::Int code) { return V::flip(code); }

  template <int kStep>
  typename V::Int step() const {
    return V::load(at, kStep * 32);
  }
};

}  // namespace

}  // namespace penstock::exec::cpu
