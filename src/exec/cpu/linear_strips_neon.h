// The loop over strips that the integer kernels of arm64 share: far pairs of strips, tiles of a few
// activation rows, groups in order. A Sums type gives the exact integer sums of one group.
#pragma once

#include "exec/cpu/codes_neon.h"

namespace penstock::exec::cpu {

/// Where strips begin and their first row; a row past the end is not stored.
struct StripAt {
  const uint8_t* blocks;
  int64_t row;
};

/// The sums of one group, number `first` of all in x for the first row, take their place: exact integers,
/// then for each group in order two fmas.
template <int MT>
static inline __attribute__((always_inline)) void take_group(const PackedCodes& w, const QuantRows& x,
                                                             int64_t first, const GroupScales& scales,
                                                             const int32x4_t (&sum)[MT][2],
                                                             Lanes (&acc)[MT]) {
  const int64_t groups = w.groups();
  const int32_t offset = w.offset();
#pragma GCC unroll 4
  for (int m = 0; m < MT; ++m) {
    const int64_t at = first + m * groups;
    const int32x4_t more = vdupq_n_s32(offset * x.code_sums[at]);
    const Lanes exact = to_floats(vaddq_s32(sum[m][0], more), vaddq_s32(sum[m][1], more));
    acc[m] = multiply_add(multiply(scales.scale, splat(x.scales[at])), exact, acc[m]);
    if (w.has_bias()) acc[m] = multiply_add(scales.bias, splat(x.sums[at]), acc[m]);
  }
}

/// Rows first_m .. first_m + MT - 1 of x against S strips. Sums<C, MT> adds up steps of codes.
template <class C, template <class, int> class Sums, int S, int MT>
static void strips_tile(const PackedCodes& w, const QuantRows& x, const StripAt (&strips)[S], int64_t first_m,
                        const LinearOut& out) {
  const ScaleReader reader(w);
  const int64_t block_groups = w.block_groups(), steps = w.group / 4;
  const int8_t* q[MT];
#pragma GCC unroll 4
  for (int m = 0; m < MT; ++m) q[m] = x.codes + (first_m + m) * x.cols;
  Lanes acc[S][MT];
#pragma GCC unroll 2
  for (int s = 0; s < S; ++s)
#pragma GCC unroll 4
    for (int m = 0; m < MT; ++m) acc[s][m] = splat(0);
  for (int64_t g = 0; g < w.groups(); ++g) {
    const int64_t group = g % block_groups;
#pragma GCC unroll 2
    for (int s = 0; s < S; ++s) {
      const uint8_t* block = strips[s].blocks + g / block_groups * w.block_bytes();
      const uint8_t* codes = block + group * w.group / kChunk * C::kBytes;
      Sums<C, MT> sums;
      if (C::kSixteens && steps == 4 && group % 2 == 1) {
        sums.template add<4, 8>(codes, q, g * w.group - kChunk / 2);
      } else if (C::kSixteens && steps == 4) {
        sums.template add<0, 4>(codes, q, g * w.group);
      } else {
        for (int64_t c = 0; c < w.group; c += kChunk, codes += C::kBytes) {
          __builtin_prefetch(codes + 1024);
          sums.template add<0, 8>(codes, q, g * w.group + c);
        }
      }
      int32x4_t sum[MT][2];
      sums.finish(sum);
      take_group<MT>(w, x, first_m * w.groups() + g, reader.read(block, group), sum, acc[s]);
    }
  }
#pragma GCC unroll 2
  for (int s = 0; s < S; ++s)
#pragma GCC unroll 4
    for (int m = 0; m < MT; ++m) store_rows(out, first_m + m, strips[s].row, w.rows, acc[s][m]);
}

/// One row reads two far streams. More rows take the strips after each other: the registers hold one strip's
/// sums, and the strips stay in the first cache.
template <class C, template <class, int> class Sums, int kTile>
static void strips_rows(const PackedCodes& w, const QuantRows& x, const StripAt (&pair)[2],
                        const LinearOut& out) {
  if (x.m == 1) return strips_tile<C, Sums, 2, 1>(w, x, pair, 0, out);
  for (const StripAt& strip : pair) {
    if (strip.row >= w.rows) continue;
    int64_t m = 0;
    for (; m + kTile <= x.m; m += kTile) strips_tile<C, Sums, 1, kTile>(w, x, {strip}, m, out);
    for (; m < x.m; ++m) strips_tile<C, Sums, 1, 1>(w, x, {strip}, m, out);
  }
}

/// Two strips at a time from the two halves of the range: the hardware follows two long streams better than
/// two adjacent short ones. An odd strip is paired with itself; rows past the end are not stored.
template <class C, template <class, int> class Sums, int kTile>
static void strips_all(const PackedCodes& w, const QuantRows& x, Range strips, const LinearOut& out) {
  const int64_t half = (strips.last - strips.first + 1) / 2, bytes = w.strip_bytes();
  for (int64_t i = strips.first; i < strips.first + half; ++i) {
    const bool paired = i + half < strips.last;
    const int64_t other = paired ? i + half : i;
    strips_rows<C, Sums, kTile>(
        w, x,
        {{w.blocks + i * bytes, i * kStripRows},
         {w.blocks + other * bytes, paired ? other * kStripRows : w.strips() * kStripRows}},
        out);
  }
}

/// Calls the loop for the layout of the codes.
template <template <class, int> class Sums, int kTile>
static void strips_by_layout(const PackedCodes& w, const QuantRows& x, Range strips, const LinearOut& out) {
  with_codes<NeonPair>(w.layout, [&]<class C>() { strips_all<C, Sums, kTile>(w, x, strips, out); });
}

}  // namespace penstock::exec::cpu
