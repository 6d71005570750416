// The loop over strips that the integer kernels of arm64 share: far pairs of strips, tiles of a few
// activation rows, groups in order. A Block type gives the exact integer sums of one block for up to kTile
// activation rows.
#pragma once

#include "exec/cpu/simd_neon.h"

namespace penstock::exec::cpu {

/// Where strips begin and their first row; a row past the end is not stored.
struct StripAt {
  const uint8_t* blocks;
  int64_t row;
};

static inline int8x16_t load_codes(const uint8_t* at) {
  return vreinterpretq_s8_u8(vld1q_u8(at));
}

/// Rows first_m .. first_m + MT - 1 of x against S strips.
template <class Block, int S, int MT>
static void strips_tile(const PackedCodes& w, const QuantRows& x, const StripAt (&strips)[S], int64_t first_m,
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
  Lanes acc[S][MT];
#pragma GCC unroll 2
  for (int s = 0; s < S; ++s)
#pragma GCC unroll 4
    for (int m = 0; m < MT; ++m) acc[s][m] = splat(0);
  int64_t offset = 0;
  for (int64_t g = 0; g < groups; ++g, offset += block_bytes) {
#pragma GCC unroll 2
    for (int s = 0; s < S; ++s) {
      const uint8_t* block = strips[s].blocks + offset;
#pragma GCC unroll 4
      for (int line = 0; line < Block::kLines; ++line) __builtin_prefetch(block + 1024 + 64 * line);
      int32x4_t sum[MT][2];
      Block::template sum<MT>(block, q, g, code_sums + g, groups, sum);
      const Lanes scale = load_scales(type, block + code_bytes);
      const Lanes bias = load_scales(type, block + code_bytes + half_bytes);
#pragma GCC unroll 4
      for (int m = 0; m < MT; ++m) {
        const Lanes a = multiply(scale, splat(scales[m * groups + g]));
        acc[s][m] = multiply_add(a, to_floats(sum[m][0], sum[m][1]), acc[s][m]);
        acc[s][m] = multiply_add(bias, splat(sums[m * groups + g]), acc[s][m]);
      }
    }
  }
#pragma GCC unroll 2
  for (int s = 0; s < S; ++s)
#pragma GCC unroll 4
    for (int m = 0; m < MT; ++m) store_rows(out, first_m + m, strips[s].row, w.rows, acc[s][m]);
}

/// One row reads two far streams. More rows take the strips after each other: the registers hold one strip's
/// sums, and the strips stay in the first cache.
template <class Block>
static void strips_rows(const PackedCodes& w, const QuantRows& x, const StripAt (&pair)[2],
                        const LinearOut& out) {
  if (x.m == 1) return strips_tile<Block, 2, 1>(w, x, pair, 0, out);
  for (const StripAt& strip : pair) {
    if (strip.row >= w.rows) continue;
    int64_t m = 0;
    for (; m + Block::kTile <= x.m; m += Block::kTile)
      strips_tile<Block, 1, Block::kTile>(w, x, {strip}, m, out);
    for (; m < x.m; ++m) strips_tile<Block, 1, 1>(w, x, {strip}, m, out);
  }
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
                       {{w.blocks + i * bytes, i * kStripRows},
                        {w.blocks + other * bytes, paired ? other * kStripRows : w.strips() * kStripRows}},
                       out);
  }
}

/// Calls the loop for the group size: Block<16> ... Block<128>.
template <template <int> class Block>
static void strips_by_group(const PackedCodes& w, const QuantRows& x, Range strips, const LinearOut& out) {
  switch (w.group) {
    case 16:
      return strips_all<Block<16>>(w, x, strips, out);
    case 32:
      return strips_all<Block<32>>(w, x, strips, out);
    case 64:
      return strips_all<Block<64>>(w, x, strips, out);
    default:
      return strips_all<Block<128>>(w, x, strips, out);
  }
}

}  // namespace penstock::exec::cpu
