// Integer codes times int8 activations with the matrix product of ARMv8.6: two rows of eight columns times
// two rows of activations in one instruction. One row alone takes the dot product.
#include "exec/cpu/kernels_neon.h"
#include "exec/cpu/linear_dotprod_neon.h"

namespace penstock::exec::cpu {

namespace {

/// MT, an even number, of activation rows. Lanes of a sum: (row, x), (row, x + 1), (row + 1, x), (row + 1,
/// x + 1).
template <class C, int MT>
struct MatrixSums {
  int32x4_t sums[MT / 2][4];

  MatrixSums() {
#pragma GCC unroll 2
    for (int m = 0; m < MT / 2; ++m)
#pragma GCC unroll 4
      for (int r = 0; r < 4; ++r) sums[m][r] = vdupq_n_s32(0);
  }

  /// Steps [kStep, kEnd), an even number, of 32 columns, whose first is `column` of the activations.
  template <int kStep, int kEnd>
  inline __attribute__((always_inline)) void add(const uint8_t* codes, const int8_t* const (&q)[MT],
                                                 int64_t column) {
    if constexpr (kStep < kEnd) {
      const C c(codes);
      const NeonPair::Int a = c.template step<kStep>(), b = c.template step<kStep + 1>();
      const int8x16_t rows[4] = {first_two(a.lo, b.lo), last_two(a.lo, b.lo), first_two(a.hi, b.hi),
                                 last_two(a.hi, b.hi)};
#pragma GCC unroll 2
      for (int m = 0; m < MT / 2; ++m) {
        const int64_t at = column + 4 * kStep;
        const int8x16_t x = vcombine_s8(vld1_s8(q[2 * m] + at), vld1_s8(q[2 * m + 1] + at));
#pragma GCC unroll 4
        for (int r = 0; r < 4; ++r) sums[m][r] = vmmlaq_s32(sums[m][r], rows[r], x);
      }
      add<kStep + 2, kEnd>(codes, q, column);
    }
  }

  inline __attribute__((always_inline)) void finish(int32x4_t (&out)[MT][2]) const {
#pragma GCC unroll 2
    for (int m = 0; m < MT / 2; ++m)
#pragma GCC unroll 2
      for (int half = 0; half < 2; ++half) {
        out[2 * m][half] = vuzp1q_s32(sums[m][2 * half], sums[m][2 * half + 1]);
        out[2 * m + 1][half] = vuzp2q_s32(sums[m][2 * half], sums[m][2 * half + 1]);
      }
  }

 private:
  static inline __attribute__((always_inline)) int8x16_t first_two(uint8x16_t a, uint8x16_t b) {
    return vreinterpretq_s8_u32(vzip1q_u32(vreinterpretq_u32_u8(a), vreinterpretq_u32_u8(b)));
  }
  static inline __attribute__((always_inline)) int8x16_t last_two(uint8x16_t a, uint8x16_t b) {
    return vreinterpretq_s8_u32(vzip2q_u32(vreinterpretq_u32_u8(a), vreinterpretq_u32_u8(b)));
  }
};

template <class C>
struct MatrixSums<C, 1> : DotSums<C, 1> {};

}  // namespace

void linear_codes_i8mm_neon(const PackedCodes& w, const QuantRows& x, Range strips, const LinearOut& out,
                            uint8_t* /*scratch*/) {
  strips_by_layout<MatrixSums, 4>(w, x, strips, out);
}

}  // namespace penstock::exec::cpu
