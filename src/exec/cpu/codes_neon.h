// What vectors of one strip are on arm64, and how scales are read there. Private to the file that includes
// it.
#pragma once

#include "exec/cpu/codes.h"
#include "exec/cpu/simd_neon.h"

namespace penstock::exec::cpu {

namespace {

/// Rows 0..3 and rows 4..7 of one strip.
struct NeonPair {
  struct Int {
    uint8x16_t lo, hi;
  };
  using Place = const uint8_t*;

  static Int load(Place at, int64_t offset) { return {vld1q_u8(at + offset), vld1q_u8(at + offset + 16)}; }
  static Int either(Int a, Int b) { return {vorrq_u8(a.lo, b.lo), vorrq_u8(a.hi, b.hi)}; }
  static Int flip(Int v) {
    const uint8x16_t top = vdupq_n_u8(128);
    return {veorq_u8(v.lo, top), veorq_u8(v.hi, top)};
  }
  static Int keep(Int v, int mask) {
    const uint8x16_t bits = vdupq_n_u8(static_cast<uint8_t>(mask));
    return {vandq_u8(v.lo, bits), vandq_u8(v.hi, bits)};
  }
  static Int look_up(const uint8_t* table, Int v) {
    const uint8x16_t bytes = vld1q_u8(table);
    return {vqtbl1q_u8(bytes, v.lo), vqtbl1q_u8(bytes, v.hi)};
  }

  template <int kShift>
  static Int shift(Int v) {
    if constexpr (kShift > 0) return {vshrq_n_u8(v.lo, kShift), vshrq_n_u8(v.hi, kShift)};
    if constexpr (kShift < 0) return {vshlq_n_u8(v.lo, -kShift), vshlq_n_u8(v.hi, -kShift)};
    return v;
  }
};

/// Eight scales and biases of one group.
struct GroupScales {
  Lanes scale, bias;
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

  /// The bias is zero where none is stored.
  inline __attribute__((always_inline)) GroupScales read(const uint8_t* block, int64_t group) const {
    const uint8_t* at = block + group * step_;
    if (type_ != ScaleType::kNested) return {one(at + scales_), has_bias_ ? one(at + biases_) : splat(0)};
    const uint8_t* halves = block + code_bytes_;
    return {nested(halves, at + scales_),
            has_bias_ ? nested(halves + 2 * kStripRows, at + biases_) : splat(0)};
  }

 private:
  inline __attribute__((always_inline)) Lanes one(const uint8_t* at) const {
    if (type_ == ScaleType::kF32) return load(reinterpret_cast<const float*>(at));
    if (type_ == ScaleType::kE8M0 || type_ == ScaleType::kE4M3) return small(at);
    const uint16x8_t half = vld1q_u16(reinterpret_cast<const uint16_t*>(at));
    return type_ == ScaleType::kF16 ? widen_f16(half) : widen_bf16(half);
  }

  inline __attribute__((always_inline)) Lanes small(const uint8_t* at) const {
    const uint16x8_t wide = vmovl_u8(vld1_u8(at));
    const Lanes factor = splat(factor_);
    if (type_ == ScaleType::kE8M0)
      return multiply(factor, {vreinterpretq_f32_u32(vshlq_n_u32(vmovl_u16(vget_low_u16(wide)), 23)),
                               vreinterpretq_f32_u32(vshlq_n_u32(vmovl_high_u16(wide), 23))});
    const uint16x8_t sign = vshlq_n_u16(vandq_u16(wide, vdupq_n_u16(0x80)), 8);
    const uint16x8_t rest = vshlq_n_u16(vandq_u16(wide, vdupq_n_u16(0x7f)), 7);
    return multiply(factor, multiply(splat(256), widen_f16(vorrq_u16(sign, rest))));
  }

  static inline __attribute__((always_inline)) Lanes nested(const uint8_t* halves, const uint8_t* at) {
    const Lanes outer = widen_f16(vld1q_u16(reinterpret_cast<const uint16_t*>(halves)));
    const int16x8_t inner = vmovl_s8(vreinterpret_s8_u8(vld1_u8(at)));
    return multiply(outer, to_floats(vmovl_s16(vget_low_s16(inner)), vmovl_high_s16(inner)));
  }

  const ScaleType type_;
  const bool has_bias_;
  const int64_t code_bytes_, scales_, biases_, step_;
  const float factor_;
};

}  // namespace

}  // namespace penstock::exec::cpu
