// Integer codes times int8 activations with the dot product of ARMv8.2: a lane takes the four columns that a
// strip holds side by side.
#include "exec/cpu/kernels_neon.h"
#include "exec/cpu/linear_strips_neon.h"

namespace penstock::exec::cpu {

namespace {

/// sums += four columns of rows 0..3 and 4..7 times lane kLane of x.
template <int kLane, int MT>
inline __attribute__((always_inline)) void dot_columns(int8x16_t lo, int8x16_t hi, const int8x16_t (&x)[MT],
                                                       int32x4_t (&sums)[MT][2]) {
#pragma GCC unroll 4
  for (int m = 0; m < MT; ++m) {
    sums[m][0] = vdotq_laneq_s32(sums[m][0], lo, x[m], kLane);
    sums[m][1] = vdotq_laneq_s32(sums[m][1], hi, x[m], kLane);
  }
}

template <int MT>
inline __attribute__((always_inline)) void load_activations(const int8_t* const (&q)[MT], int64_t column,
                                                            int8x16_t (&x)[MT]) {
#pragma GCC unroll 4
  for (int m = 0; m < MT; ++m) x[m] = vld1q_s8(q[m] + column);
}

template <int G>
struct FourDot {
  static constexpr int kTile = 4;
  static constexpr int kLines = (G * 4 + 63) / 64 + 1 > 4 ? 4 : (G * 4 + 63) / 64 + 1;

  template <int MT>
  static inline __attribute__((always_inline)) void sum(const uint8_t* block, const int8_t* const (&q)[MT],
                                                        int64_t g, const int32_t* /*code_sums*/,
                                                        int64_t /*groups*/, int32x4_t (&sums)[MT][2]) {
#pragma GCC unroll 4
    for (int m = 0; m < MT; ++m) sums[m][0] = sums[m][1] = vdupq_n_s32(0);
#pragma GCC unroll 2
    for (int c = 0; c < G; c += 16, block += 64) {
      int8x16_t x[MT];
      load_activations(q, g * G + c, x);
      const uint8x16_t lo0 = vld1q_u8(block), hi0 = vld1q_u8(block + 16);
      const uint8x16_t lo1 = vld1q_u8(block + 32), hi1 = vld1q_u8(block + 48);
      dot_columns<0>(low_codes(lo0), low_codes(hi0), x, sums);
      dot_columns<1>(high_codes(lo0), high_codes(hi0), x, sums);
      dot_columns<2>(low_codes(lo1), low_codes(hi1), x, sums);
      dot_columns<3>(high_codes(lo1), high_codes(hi1), x, sums);
    }
  }

 private:
  static inline int8x16_t low_codes(uint8x16_t w) {
    return vreinterpretq_s8_u8(vandq_u8(w, vdupq_n_u8(15)));
  }
  static inline int8x16_t high_codes(uint8x16_t w) {
    return vreinterpretq_s8_u8(vshrq_n_u8(w, 4));
  }
};

/// Codes below 128 are the same signed or not; of eight bits they are the true ones minus 128.
template <int G, bool kSigned>
struct EightDot {
  static constexpr int kTile = 4;
  static constexpr int kLines = (G * 8 + 63) / 64 + 1 > 4 ? 4 : (G * 8 + 63) / 64 + 1;

  template <int MT>
  static inline __attribute__((always_inline)) void sum(const uint8_t* block, const int8_t* const (&q)[MT],
                                                        int64_t g, const int32_t* code_sums, int64_t groups,
                                                        int32x4_t (&sums)[MT][2]) {
#pragma GCC unroll 4
    for (int m = 0; m < MT; ++m)
      sums[m][0] = sums[m][1] = vdupq_n_s32(kSigned ? code_sums[m * groups] * 128 : 0);
#pragma GCC unroll 2
    for (int c = 0; c < G; c += 16, block += 128) {
      int8x16_t x[MT];
      load_activations(q, g * G + c, x);
      dot_columns<0>(load_codes(block), load_codes(block + 16), x, sums);
      dot_columns<1>(load_codes(block + 32), load_codes(block + 48), x, sums);
      dot_columns<2>(load_codes(block + 64), load_codes(block + 80), x, sums);
      dot_columns<3>(load_codes(block + 96), load_codes(block + 112), x, sums);
    }
  }
};

template <int G>
using SmallDot = EightDot<G, false>;
template <int G>
using SignedDot = EightDot<G, true>;

}  // namespace

void linear_codes_dotprod_neon(const PackedCodes& w, const QuantRows& x, Range strips, const LinearOut& out,
                               uint8_t* /*scratch*/) {
  if (w.width == CodeWidth::kFour) return strips_by_group<FourDot>(w, x, strips, out);
  if (w.is_signed()) return strips_by_group<SignedDot>(w, x, strips, out);
  strips_by_group<SmallDot>(w, x, strips, out);
}

}  // namespace penstock::exec::cpu
