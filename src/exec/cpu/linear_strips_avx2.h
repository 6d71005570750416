// The loop over strips that the integer kernels of both code widths share: far pairs of strips, tiles of at
// most four activation rows, groups in order. A Block type gives the exact integer sums of one block.
#pragma once

#include "exec/cpu/simd_avx2.h"

namespace penstock::exec::cpu {

struct StripPair {
  const uint8_t* at[2];
  int64_t row[2];
};

/// Rows first_m .. first_m + MT - 1 of x against S strips.
template <class Block, int S, int MT>
static void strips_tile(const PackedCodes& w, const QuantRows& x, const StripPair& pair, int64_t first_m,
                        const LinearOut& out) {
  const int64_t groups = w.groups(), block_bytes = w.block_bytes(), code_bytes = w.code_bytes();
  const int64_t half_bytes = kStripRows * w.scale_bytes();
  const ScaleType type = w.scale_type;
  const int8_t* q[MT];
#pragma GCC unroll 4
  for (int m = 0; m < MT; ++m) q[m] = x.codes + (first_m + m) * x.cols;
  const float* scales = x.scales + first_m * groups;
  const float* sums = x.sums + first_m * groups;
  const int32_t* code_sums = x.code_sums + first_m * groups;
  __m256 acc[S][MT];
#pragma GCC unroll 2
  for (int s = 0; s < S; ++s)
#pragma GCC unroll 4
    for (int m = 0; m < MT; ++m) acc[s][m] = _mm256_setzero_ps();
  int64_t offset = 0;
  for (int64_t g = 0; g < groups; ++g, offset += block_bytes) {
#pragma GCC unroll 2
    for (int s = 0; s < S; ++s) {
      const uint8_t* block = pair.at[s] + offset;
      // Without this the broadcast activations of the first strip are kept on the stack for the second.
      if (MT > 1) asm volatile("" ::: "memory");
#pragma GCC unroll 4
      for (int line = 0; line < Block::kLines; ++line)
        _mm_prefetch(reinterpret_cast<const char*>(block + 1024 + 64 * line), _MM_HINT_T0);
      __m256i sum[MT];
      Block::template sum<MT>(block, q, g, code_sums + g, groups, sum);
      const __m256 scale = load_scales(type, block + code_bytes);
      const __m256 bias = load_scales(type, block + code_bytes + half_bytes);
#pragma GCC unroll 4
      for (int m = 0; m < MT; ++m) {
        const __m256 a = _mm256_mul_ps(scale, _mm256_set1_ps(scales[m * groups + g]));
        acc[s][m] = _mm256_fmadd_ps(a, _mm256_cvtepi32_ps(sum[m]), acc[s][m]);
        acc[s][m] = _mm256_fmadd_ps(bias, _mm256_set1_ps(sums[m * groups + g]), acc[s][m]);
      }
    }
  }
#pragma GCC unroll 2
  for (int s = 0; s < S; ++s)
#pragma GCC unroll 4
    for (int m = 0; m < MT; ++m) store_rows(out, first_m + m, pair.row[s], w.rows, acc[s][m]);
}

template <class Block>
static void strips_rows(const PackedCodes& w, const QuantRows& x, const StripPair& pair,
                        const LinearOut& out) {
  int64_t m = 0;
  for (; m + 4 <= x.m; m += 4) strips_tile<Block, 2, 4>(w, x, pair, m, out);
  if (x.m - m == 3) strips_tile<Block, 2, 3>(w, x, pair, m, out);
  if (x.m - m == 2) strips_tile<Block, 2, 2>(w, x, pair, m, out);
  if (x.m - m == 1) strips_tile<Block, 2, 1>(w, x, pair, m, out);
}

/// Two strips at a time from the two halves of the range: the hardware follows two long streams better than
/// two adjacent short ones. An odd strip is paired with itself; rows past the end are not stored.
template <class Block>
static void strips_all(const PackedCodes& w, const QuantRows& x, Range strips, const LinearOut& out) {
  const int64_t half = (strips.last - strips.first + 1) / 2, bytes = w.strip_bytes();
  for (int64_t i = strips.first; i < strips.first + half; ++i) {
    const bool paired = i + half < strips.last;
    const int64_t other = paired ? i + half : i;
    strips_rows<Block>(w, x,
                       {{w.blocks + i * bytes, w.blocks + other * bytes},
                        {i * kStripRows, paired ? other * kStripRows : w.strips() * kStripRows}},
                       out);
  }
}

}  // namespace penstock::exec::cpu
