// Four-bit codes times int8 activations: codes are unpacked in registers.
#include "exec/cpu/kernels_avx2.h"
#include "exec/cpu/linear_strips_avx2.h"

namespace penstock::exec::cpu {

namespace {

template <int G>
struct FourBlock {
  static constexpr int kLines = (G * 4 + 63) / 64 + 1 > 4 ? 4 : (G * 4 + 63) / 64 + 1;

  template <int MT>
  static inline __attribute__((always_inline)) void sum(const uint8_t* block, const int8_t* const (&q)[MT],
                                                        int64_t g, const int32_t* /*code_sums*/,
                                                        int64_t /*groups*/, __m256i (&sums)[MT]) {
    // Eight steps of at most 2 * 15 * 127 fit 16 bits, so one widening add serves 32 columns.
    constexpr int kChunk = G < 32 ? G : 32;
    const __m256i low = _mm256_set1_epi8(15), ones = _mm256_set1_epi16(1);
#pragma GCC unroll 4
    for (int c = 0; c < G; c += kChunk) {
      __m256i part[MT];
#pragma GCC unroll 4
      for (int v = 0; v < kChunk / 8; ++v) {
        const __m256i w = load_bytes(block + (c / 8 + v) * 32);
        const __m256i even = _mm256_and_si256(w, low);
        const __m256i odd = _mm256_and_si256(_mm256_srli_epi16(w, 4), low);
#pragma GCC unroll 4
        for (int m = 0; m < MT; ++m) {
          const int8_t* x = q[m] + g * G + c + 8 * v;
          const __m256i first = _mm256_maddubs_epi16(even, broadcast4(x));
          part[m] = v == 0 ? first : _mm256_add_epi16(part[m], first);
          PENSTOCK_KEEP_ORDER(part[m]);
          part[m] = _mm256_add_epi16(part[m], _mm256_maddubs_epi16(odd, broadcast4(x + 4)));
          PENSTOCK_KEEP_ORDER(part[m]);
        }
      }
#pragma GCC unroll 4
      for (int m = 0; m < MT; ++m) {
        const __m256i wide = _mm256_madd_epi16(part[m], ones);
        sums[m] = c == 0 ? wide : _mm256_add_epi32(sums[m], wide);
      }
    }
  }
};

}  // namespace

void linear_four_avx2(const PackedCodes& w, const QuantRows& x, Range strips, const LinearOut& out) {
  switch (w.group) {
    case 16:
      return strips_all<FourBlock<16>>(w, x, strips, out);
    case 32:
      return strips_all<FourBlock<32>>(w, x, strips, out);
    case 64:
      return strips_all<FourBlock<64>>(w, x, strips, out);
    default:
      return strips_all<FourBlock<128>>(w, x, strips, out);
  }
}

}  // namespace penstock::exec::cpu
