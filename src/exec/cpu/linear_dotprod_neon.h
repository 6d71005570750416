// Sums of a group with the dot product of ARMv8.2: a lane takes the four columns that a strip holds side by
// side. Codes are below 128, or signed, so that they may be read as signed. Private to the file that includes
// it.
#pragma once

#include "exec/cpu/linear_strips_neon.h"

namespace penstock::exec::cpu {

namespace {

template <class C, int MT>
struct DotSums {
  int32x4_t sums[MT][2];

  DotSums() {
#pragma GCC unroll 4
    for (int m = 0; m < MT; ++m) sums[m][0] = sums[m][1] = vdupq_n_s32(0);
  }

  /// Steps [kStep, kEnd), a multiple of four, of 32 columns, whose first is `column` of the activations.
  template <int kStep, int kEnd>
  inline __attribute__((always_inline)) void add(const uint8_t* codes, const int8_t* const (&q)[MT],
                                                 int64_t column) {
    if constexpr (kStep < kEnd) {
      int8x16_t x[MT];
#pragma GCC unroll 4
      for (int m = 0; m < MT; ++m) x[m] = vld1q_s8(q[m] + column + 4 * kStep);
      const C c(codes);
      add_step<0>(c.template step<kStep>(), x);
      add_step<1>(c.template step<kStep + 1>(), x);
      add_step<2>(c.template step<kStep + 2>(), x);
      add_step<3>(c.template step<kStep + 3>(), x);
      add<kStep + 4, kEnd>(codes, q, column);
    }
  }

  inline __attribute__((always_inline)) void finish(int32x4_t (&out)[MT][2]) const {
#pragma GCC unroll 4
    for (int m = 0; m < MT; ++m) out[m][0] = sums[m][0], out[m][1] = sums[m][1];
  }

 private:
  template <int kLane>
  inline __attribute__((always_inline)) void add_step(NeonPair::Int code, const int8x16_t (&x)[MT]) {
    const int8x16_t lo = vreinterpretq_s8_u8(code.lo), hi = vreinterpretq_s8_u8(code.hi);
#pragma GCC unroll 4
    for (int m = 0; m < MT; ++m) {
      sums[m][0] = vdotq_laneq_s32(sums[m][0], lo, x[m], kLane);
      sums[m][1] = vdotq_laneq_s32(sums[m][1], hi, x[m], kLane);
    }
  }
};

}  // namespace

}  // namespace penstock::exec::cpu
