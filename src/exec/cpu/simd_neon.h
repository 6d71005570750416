// What the NEON kernels share: eight lanes as two registers, so that a strip or a chunk of a row is one value
// as in the twins. Every function is static: code built for the dot product must never be merged with a
// function of the same name built for less. Includes only intrinsics.
#pragma once

#include <cstddef>

#include <arm_neon.h>

#include "exec/cpu/kernels.h"

namespace penstock::exec::cpu {

struct Lanes {
  float32x4_t lo, hi;
};

static inline Lanes splat(float value) {
  return {vdupq_n_f32(value), vdupq_n_f32(value)};
}

static inline Lanes load(const float* at) {
  return {vld1q_f32(at), vld1q_f32(at + 4)};
}

static inline void store(float* at, Lanes value) {
  vst1q_f32(at, value.lo);
  vst1q_f32(at + 4, value.hi);
}

/// The first n of eight lanes, n in 0..8, zeros after them.
static inline Lanes load_part(const float* at, int64_t n) {
  float padded[8] = {};
  __builtin_memcpy(padded, at, static_cast<size_t>(n) * sizeof(float));
  return load(padded);
}

static inline void store_part(float* at, Lanes value, int64_t n) {
  float padded[8];
  store(padded, value);
  __builtin_memcpy(at, padded, static_cast<size_t>(n) * sizeof(float));
}

static inline Lanes add(Lanes a, Lanes b) {
  return {vaddq_f32(a.lo, b.lo), vaddq_f32(a.hi, b.hi)};
}

static inline Lanes multiply(Lanes a, Lanes b) {
  return {vmulq_f32(a.lo, b.lo), vmulq_f32(a.hi, b.hi)};
}

static inline Lanes divide(Lanes a, Lanes b) {
  return {vdivq_f32(a.lo, b.lo), vdivq_f32(a.hi, b.hi)};
}

static inline Lanes negate(Lanes a) {
  return {vnegq_f32(a.lo), vnegq_f32(a.hi)};
}

/// a * b + c, rounded once.
static inline Lanes multiply_add(Lanes a, Lanes b, Lanes c) {
  return {vfmaq_f32(c.lo, a.lo, b.lo), vfmaq_f32(c.hi, a.hi, b.hi)};
}

/// a where a > b, else b: also where a is NaN.
static inline Lanes larger(Lanes a, Lanes b) {
  return {vbslq_f32(vcgtq_f32(a.lo, b.lo), a.lo, b.lo), vbslq_f32(vcgtq_f32(a.hi, b.hi), a.hi, b.hi)};
}

static inline Lanes to_floats(int32x4_t lo, int32x4_t hi) {
  return {vcvtq_f32_s32(lo), vcvtq_f32_s32(hi)};
}

/// Eight numbers of 16 bits, bfloat16 or half precision.
static inline Lanes widen_bf16(uint16x8_t bits) {
  return {vreinterpretq_f32_u32(vshll_n_u16(vget_low_u16(bits), 16)),
          vreinterpretq_f32_u32(vshll_high_n_u16(bits, 16))};
}

static inline Lanes widen_f16(uint16x8_t bits) {
  const float16x8_t half = vreinterpretq_f16_u16(bits);
  return {vcvt_f32_f16(vget_low_f16(half)), vcvt_high_f32_f16(half)};
}

/// Sum of 8 lanes in the order of fold8.
static inline float fold(Lanes v) {
  const float32x4_t a = vaddq_f32(v.lo, v.hi);
  const float32x2_t b = vadd_f32(vget_low_f32(a), vget_high_f32(a));
  return vget_lane_f32(b, 0) + vget_lane_f32(b, 1);
}

/// Largest of 8 lanes, none of them NaN.
static inline float fold_max(Lanes v) {
  return vmaxvq_f32(vmaxq_f32(v.lo, v.hi));
}

/// exp2_scalar on 4 lanes.
static inline float32x4_t exp2_four(float32x4_t x) {
  x = vminq_f32(vmaxq_f32(x, vdupq_n_f32(-125.0f)), vdupq_n_f32(126.0f));
  const float32x4_t n = vrndnq_f32(x);
  const float32x4_t f = vsubq_f32(x, n);
  float32x4_t p = vdupq_n_f32(kExp2[5]);
  p = vfmaq_f32(vdupq_n_f32(kExp2[4]), p, f);
  p = vfmaq_f32(vdupq_n_f32(kExp2[3]), p, f);
  p = vfmaq_f32(vdupq_n_f32(kExp2[2]), p, f);
  p = vfmaq_f32(vdupq_n_f32(kExp2[1]), p, f);
  p = vfmaq_f32(vdupq_n_f32(kExp2[0]), p, f);
  return vreinterpretq_f32_s32(vaddq_s32(vreinterpretq_s32_f32(p), vshlq_n_s32(vcvtq_s32_f32(n), 23)));
}

static inline Lanes exp2_lanes(Lanes x) {
  return {exp2_four(x.lo), exp2_four(x.hi)};
}

static inline float exp2_one(float x) {
  return vgetq_lane_f32(exp2_four(vdupq_n_f32(x)), 0);
}

/// Adds the bias, then writes or adds the rows [row, row + 8) of one output row, those below `rows`.
static inline void store_rows(const LinearOut& out, int64_t m, int64_t row, int64_t rows, Lanes value) {
  float* at = out.out + m * out.stride + row;
  if (row + kStripRows <= rows) {
    if (out.bias != nullptr) value = add(value, load(out.bias + row));
    if (out.add) value = add(load(at), value);
    store(at, value);
    return;
  }
  if (row >= rows) return;
  const int64_t n = rows - row;
  if (out.bias != nullptr) value = add(value, load_part(out.bias + row, n));
  if (out.add) value = add(load_part(at, n), value);
  store_part(at, value, n);
}

}  // namespace penstock::exec::cpu
