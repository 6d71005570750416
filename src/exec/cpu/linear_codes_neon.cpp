// Integer codes times int8 activations for processors without the dot product: products are added in 16 bits
// while they fit, then pairwise in 32.
#include "exec/cpu/kernels_neon.h"
#include "exec/cpu/linear_strips_neon.h"

namespace penstock::exec::cpu {

namespace {

/// Four columns of an activation row, twice.
inline int8x8_t twice(const int8_t* at) {
  int32_t four;
  __builtin_memcpy(&four, at, sizeof(four));
  return vreinterpret_s8_s32(vdup_n_s32(four));
}

/// The sums of one group for MT activation rows. Four registers take two rows of weights each, first by
/// column, then by pair of columns, at the end whole.
template <class C, int MT>
struct WideningSums {
  int16x8_t narrow[MT][4];
  int32x4_t wide[MT][4];

  WideningSums() {
#pragma GCC unroll 2
    for (int m = 0; m < MT; ++m)
#pragma GCC unroll 4
      for (int r = 0; r < 4; ++r) wide[m][r] = vdupq_n_s32(0), narrow[m][r] = vdupq_n_s16(0);
  }

  /// Steps [kStep, kEnd) of 32 columns, whose first is `column` of the activations.
  template <int kStep, int kEnd>
  inline __attribute__((always_inline)) void add(const uint8_t* codes, const int8_t* const (&x)[MT],
                                                 int64_t column) {
    if constexpr (kStep < kEnd) {
      add_step(C(codes).template step<kStep>(), x, column + 4 * kStep);
      // A lane holds one product of a step, half of what x86 has: twice as many fit.
      constexpr int kFlush = C::kFlush >= 4 ? 8 : 2 * C::kFlush;
      if constexpr (kStep % kFlush == kFlush - 1 || kStep + 1 == kEnd) widen();
      add<kStep + 1, kEnd>(codes, x, column);
    }
  }

  inline __attribute__((always_inline)) void finish(int32x4_t (&sums)[MT][2]) const {
#pragma GCC unroll 2
    for (int m = 0; m < MT; ++m) {
      sums[m][0] = vpaddq_s32(wide[m][0], wide[m][1]);
      sums[m][1] = vpaddq_s32(wide[m][2], wide[m][3]);
    }
  }

 private:
  inline __attribute__((always_inline)) void add_step(NeonPair::Int code, const int8_t* const (&x)[MT],
                                                      int64_t column) {
    const int8x16_t lo = vreinterpretq_s8_u8(code.lo), hi = vreinterpretq_s8_u8(code.hi);
#pragma GCC unroll 2
    for (int m = 0; m < MT; ++m) {
      const int8x8_t four = twice(x[m] + column);
      narrow[m][0] = vmlal_s8(narrow[m][0], vget_low_s8(lo), four);
      narrow[m][1] = vmlal_s8(narrow[m][1], vget_high_s8(lo), four);
      narrow[m][2] = vmlal_s8(narrow[m][2], vget_low_s8(hi), four);
      narrow[m][3] = vmlal_s8(narrow[m][3], vget_high_s8(hi), four);
    }
  }

  inline __attribute__((always_inline)) void widen() {
#pragma GCC unroll 2
    for (int m = 0; m < MT; ++m)
#pragma GCC unroll 4
      for (int r = 0; r < 4; ++r)
        wide[m][r] = vpadalq_s16(wide[m][r], narrow[m][r]), narrow[m][r] = vdupq_n_s16(0);
  }
};

}  // namespace

void linear_codes_neon(const PackedCodes& w, const QuantRows& x, Range strips, const LinearOut& out,
                       uint8_t* /*scratch*/) {
  strips_by_layout<WideningSums, 2>(w, x, strips, out);
}

}  // namespace penstock::exec::cpu
