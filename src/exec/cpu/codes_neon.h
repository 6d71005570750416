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
  using Floats = Lanes;

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

  // Eight scales of one type.
  static Floats all(float value) { return splat(value); }
  static Floats times(Floats a, Floats b) { return multiply(a, b); }
  static Floats f32(const uint8_t* at) {
    return penstock::exec::cpu::load(reinterpret_cast<const float*>(at));
  }
  static Floats f16(const uint8_t* at) { return widen_f16(vld1q_u16(reinterpret_cast<const uint16_t*>(at))); }
  static Floats bf16(const uint8_t* at) {
    return widen_bf16(vld1q_u16(reinterpret_cast<const uint16_t*>(at)));
  }
  static Floats int8(const uint8_t* at) {
    const int16x8_t wide = vmovl_s8(vreinterpret_s8_u8(vld1_u8(at)));
    return to_floats(vmovl_s16(vget_low_s16(wide)), vmovl_high_s16(wide));
  }
  template <int kFrom>
  static Floats nibble(const uint8_t* at) {
    uint8x8_t bits = vld1_u8(at);
    if constexpr (kFrom != 0) bits = vshr_n_u8(bits, kFrom);
    const int16x8_t wide = vreinterpretq_s16_u16(vmovl_u8(vand_u8(bits, vdup_n_u8(15))));
    return to_floats(vmovl_s16(vget_low_s16(wide)), vmovl_high_s16(wide));
  }
  static Floats e8m0(const uint8_t* at) {
    const uint16x8_t wide = vmovl_u8(vld1_u8(at));
    return {vreinterpretq_f32_u32(vshlq_n_u32(vmovl_u16(vget_low_u16(wide)), 23)),
            vreinterpretq_f32_u32(vshlq_n_u32(vmovl_high_u16(wide), 23))};
  }
  static Floats e4m3(const uint8_t* at) {
    const uint16x8_t wide = vmovl_u8(vld1_u8(at));
    const uint16x8_t sign = vshlq_n_u16(vandq_u16(wide, vdupq_n_u16(0x80)), 8);
    const uint16x8_t rest = vshlq_n_u16(vandq_u16(wide, vdupq_n_u16(0x7f)), 7);
    return times(all(256), widen_f16(vorrq_u16(sign, rest)));
  }
};

using ScaleReader = ScalesOf<NeonPair>;
using GroupScales = ScaleReader::Group;

}  // namespace

}  // namespace penstock::exec::cpu
