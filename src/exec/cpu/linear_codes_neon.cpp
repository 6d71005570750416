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

/// The sums of one block for MT activation rows. Four registers take two rows of weights each, first by
/// column, then by pair of columns, at the end whole.
template <int MT>
struct Sums {
  int16x8_t narrow[MT][4];
  int32x4_t wide[MT][4];

  inline __attribute__((always_inline)) void clear() {
#pragma GCC unroll 2
    for (int m = 0; m < MT; ++m)
#pragma GCC unroll 4
      for (int r = 0; r < 4; ++r) wide[m][r] = vdupq_n_s32(0), narrow[m][r] = vdupq_n_s16(0);
  }

  /// Four columns of eight rows.
  inline __attribute__((always_inline)) void add(int8x16_t lo, int8x16_t hi, const int8_t* const (&x)[MT],
                                                 int64_t column) {
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

  inline __attribute__((always_inline)) void finish(int32x4_t (&sums)[MT][2]) const {
#pragma GCC unroll 2
    for (int m = 0; m < MT; ++m) {
      sums[m][0] = vpaddq_s32(wide[m][0], wide[m][1]);
      sums[m][1] = vpaddq_s32(wide[m][2], wide[m][3]);
    }
  }
};

template <int G>
struct FourBlock {
  static constexpr int kTile = 2;
  static constexpr int kLines = (G * 4 + 63) / 64 + 1 > 4 ? 4 : (G * 4 + 63) / 64 + 1;
  static constexpr int kChunk = G < 64 ? G : 64;  // 16 products of at most 15 * 127 fit 16 bits

  template <int MT>
  static inline __attribute__((always_inline)) void sum(const uint8_t* block, const int8_t* const (&q)[MT],
                                                        int64_t g, const int32_t* /*code_sums*/,
                                                        int64_t /*groups*/, int32x4_t (&sums)[MT][2]) {
    const uint8x16_t low = vdupq_n_u8(15);
    Sums<MT> running;
    running.clear();
    for (int c = 0; c < G; c += kChunk) {
#pragma GCC unroll 2
      for (int v = 0; v < kChunk; v += 8, block += 32) {
        const uint8x16_t lo = vld1q_u8(block), hi = vld1q_u8(block + 16);
        running.add(vreinterpretq_s8_u8(vandq_u8(lo, low)), vreinterpretq_s8_u8(vandq_u8(hi, low)), q,
                    g * G + c + v);
        running.add(vreinterpretq_s8_u8(vshrq_n_u8(lo, 4)), vreinterpretq_s8_u8(vshrq_n_u8(hi, 4)), q,
                    g * G + c + v + 4);
      }
      running.widen();
    }
    running.finish(sums);
  }
};

/// kSteps products are added in 16 bits: 4 for codes up to 63 (4 * 63 * 127 = 32004), 2 for codes up to 127
/// and for signed codes (2 * 128 * 127 = 32512).
template <int G, int kSteps, bool kSigned>
struct EightBlock {
  static constexpr int kTile = 2;
  static constexpr int kLines = (G * 8 + 63) / 64 + 1 > 4 ? 4 : (G * 8 + 63) / 64 + 1;

  template <int MT>
  static inline __attribute__((always_inline)) void sum(const uint8_t* block, const int8_t* const (&q)[MT],
                                                        int64_t g, const int32_t* code_sums, int64_t groups,
                                                        int32x4_t (&sums)[MT][2]) {
    Sums<MT> running;
    running.clear();
    for (int c = 0; c < G; c += 4 * kSteps) {
#pragma GCC unroll 4
      for (int step = 0; step < kSteps; ++step, block += 32)
        running.add(load_codes(block), load_codes(block + 16), q, g * G + c + 4 * step);
      running.widen();
    }
    running.finish(sums);
    if (!kSigned) return;
#pragma GCC unroll 2
    for (int m = 0; m < MT; ++m)  // a signed code is the true one minus 128
#pragma GCC unroll 2
      for (int h = 0; h < 2; ++h)
        sums[m][h] = vaddq_s32(sums[m][h], vdupq_n_s32(code_sums[m * groups] * 128));
  }
};

template <int G>
using SmallBlock = EightBlock<G, 4, false>;
template <int G>
using MiddleBlock = EightBlock<G, 2, false>;
template <int G>
using SignedBlock = EightBlock<G, 2, true>;

}  // namespace

void linear_codes_neon(const PackedCodes& w, const QuantRows& x, Range strips, const LinearOut& out,
                       uint8_t* /*scratch*/) {
  if (w.width == CodeWidth::kFour) return strips_by_group<FourBlock>(w, x, strips, out);
  if (w.is_signed()) return strips_by_group<SignedBlock>(w, x, strips, out);
  if (w.code_bits > 6) return strips_by_group<MiddleBlock>(w, x, strips, out);
  strips_by_group<SmallBlock>(w, x, strips, out);
}

}  // namespace penstock::exec::cpu
