// Codes of five to eight bits, stored as bytes, times int8 activations.
#include "exec/cpu/kernels_avx2.h"
#include "exec/cpu/linear_strips_avx2.h"

namespace penstock::exec::cpu {

namespace {

/// kSteps products are added in 16 bits before they are widened: 2 for codes up to 63 (2 * 2 * 63 * 127 =
/// 32004), 1 for codes up to 127 and for signed codes (2 * 128 * 127 = 32512).
template <int G, int kSteps, bool kSigned>
struct EightBlock {
  static constexpr int kLines = (G * 8 + 63) / 64 + 1 > 4 ? 4 : (G * 8 + 63) / 64 + 1;

  template <int MT>
  static inline __attribute__((always_inline)) void sum(const uint8_t* block, const int8_t* const (&q)[MT],
                                                        int64_t g, const int32_t* code_sums, int64_t groups,
                                                        __m256i (&sums)[MT]) {
    const __m256i ones = _mm256_set1_epi16(1);
#pragma GCC unroll 4
    for (int m = 0; m < MT; ++m)  // a signed code is the true one minus 128
      sums[m] = kSigned ? _mm256_set1_epi32(code_sums[m * groups] * 128) : _mm256_setzero_si256();
#pragma GCC unroll 8
    for (int v = 0; v < G / 4; v += kSteps) {
      __m256i part[MT];
#pragma GCC unroll 2
      for (int step = 0; step < kSteps; ++step) {
        const __m256i w = load_bytes(block + (v + step) * 32);
        const __m256i magnitude = kSigned ? _mm256_abs_epi8(w) : w;
#pragma GCC unroll 4
        for (int m = 0; m < MT; ++m) {
          __m256i x4 = broadcast4(q[m] + g * G + (v + step) * 4);
          if (kSigned) x4 = _mm256_sign_epi8(x4, w);
          const __m256i product = _mm256_maddubs_epi16(magnitude, x4);
          part[m] = step == 0 ? product : _mm256_add_epi16(part[m], product);
        }
      }
#pragma GCC unroll 4
      for (int m = 0; m < MT; ++m) {
        sums[m] = _mm256_add_epi32(sums[m], _mm256_madd_epi16(part[m], ones));
        PENSTOCK_KEEP_ORDER(sums[m]);
      }
    }
  }
};

template <int kSteps, bool kSigned>
void by_group(const PackedCodes& w, const QuantRows& x, Range strips, const LinearOut& out) {
  switch (w.group) {
    case 16:
      return strips_all<EightBlock<16, kSteps, kSigned>>(w, x, strips, out);
    case 32:
      return strips_all<EightBlock<32, kSteps, kSigned>>(w, x, strips, out);
    case 64:
      return strips_all<EightBlock<64, kSteps, kSigned>>(w, x, strips, out);
    default:
      return strips_all<EightBlock<128, kSteps, kSigned>>(w, x, strips, out);
  }
}

}  // namespace

void linear_eight_avx2(const PackedCodes& w, const QuantRows& x, Range strips, const LinearOut& out) {
  if (w.is_signed()) return by_group<1, true>(w, x, strips, out);
  if (w.code_bits > 6) return by_group<1, false>(w, x, strips, out);
  return by_group<2, false>(w, x, strips, out);
}

}  // namespace penstock::exec::cpu
