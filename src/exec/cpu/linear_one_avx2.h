// Codes times one activation row, straight from the codes of two far strips. Loops for the ways that scales
// lie: behind each group, nested, any.
#pragma once

#include "exec/cpu/linear_far_avx2.h"
#include "exec/cpu/linear_scales_avx2.h"

namespace penstock::exec::cpu {

/// What one row has beside its codes: for the next group a scale and a sum.
struct RowGroups {
  const float *scales, *sums;
  const int32_t* code_sums;
  __m256i offset;  // 16 bits in 32

  RowGroups(const QuantRows& x, int64_t m, int64_t groups, int32_t code_offset)
      : scales(x.scales + m * groups),
        sums(x.sums + m * groups),
        code_sums(x.code_sums + m * groups),
        offset(_mm256_set1_epi32(code_offset & 0xffff)) {}

  /// RowTile::take of two strips and group `i` of the next ones. Sums of codes fit 16 bits.
  template <bool kHasBias>
  inline __attribute__((always_inline)) void take(int i, const GroupScales& first, const GroupScales& second,
                                                  __m256i (&sum)[2][1], __m256 (&acc)[2][1]) const {
    if constexpr (!kHasBias) {
      const __m256i all = _mm256_madd_epi16(_mm256_set1_epi32(code_sums[i]), offset);
      sum[0][0] = _mm256_add_epi32(sum[0][0], all);
      sum[1][0] = _mm256_add_epi32(sum[1][0], all);
    }
    const __m256 a = _mm256_set1_ps(scales[i]);
    acc[0][0] = _mm256_fmadd_ps(_mm256_mul_ps(first.scale, a), _mm256_cvtepi32_ps(sum[0][0]), acc[0][0]);
    acc[1][0] = _mm256_fmadd_ps(_mm256_mul_ps(second.scale, a), _mm256_cvtepi32_ps(sum[1][0]), acc[1][0]);
    if constexpr (kHasBias) {
      const __m256 b = _mm256_set1_ps(sums[i]);
      acc[0][0] = _mm256_fmadd_ps(first.bias, b, acc[0][0]);
      acc[1][0] = _mm256_fmadd_ps(second.bias, b, acc[1][0]);
    }
  }

  template <bool kHasBias>
  inline __attribute__((always_inline)) void next(int n) {
    scales += n;
    if constexpr (kHasBias)
      sums += n;
    else
      code_sums += n;
  }
};

/// Row first_m of x against two strips whose scales are nested. Not inlined: registers are for its loop
/// alone.
template <class C, class Scales, bool kHalf>
static __attribute__((noinline)) void one_row_nested(const PackedCodes& w, const CodeShape& shape,
                                                     const QuantRows& x, const StripPair& pair,
                                                     int64_t first_m, const LinearOut& out) {
  static_assert(!C::kSigned);
  constexpr int kGroups = kHalf ? 2 : 1;
  constexpr bool kHasBias = Scales::has_bias();
  RowGroups row(x, first_m, shape.groups, shape.offset);
  const int64_t scales_ahead = shape.ahead + shape.scales_at,
                scale_bytes = shape.block_bytes - shape.scales_at;
  Scales first(w), second(w);
  __m256 acc[2][1] = {{_mm256_setzero_ps()}, {_mm256_setzero_ps()}};
  const int8_t* q = x.codes + first_m * x.cols;
  for (int64_t b = 0; b < shape.blocks; ++b) {
    const uint8_t* at[2] = {pair.at[0] + b * shape.block_bytes, pair.at[1] + b * shape.block_bytes};
    prefetch_lines(at[0] + scales_ahead, scale_bytes);
    prefetch_lines(at[1] + scales_ahead, scale_bytes);
    first.open(at[0]);
    second.open(at[1]);
    for (int64_t group = 0; group < shape.block_groups; group += kGroups) {
      __m256i sum[kGroups][2][1];
      sum_far<C, kHalf>(shape, at, q, sum);
      GroupScales of[2][kGroups];
      first.template read<kGroups>(group, of[0]);
      second.template read<kGroups>(group, of[1]);
#pragma GCC unroll 2
      for (int i = 0; i < kGroups; ++i) row.template take<kHasBias>(i, of[0][i], of[1][i], sum[i], acc);
      row.template next<kHasBias>(kGroups);
    }
  }
#pragma GCC unroll 2
  for (int s = 0; s < 2; ++s) store_rows(out, first_m, pair.row[s], shape.rows, acc[s][0]);
}

/// The same with scales of any other type.
template <class C, class Scales, bool kHalf>
static __attribute__((noinline)) void one_row(const PackedCodes& w, const CodeShape& shape,
                                              const QuantRows& x, const StripPair& pair, int64_t first_m,
                                              const LinearOut& out) {
  const RowTile<1> row(x, first_m, shape.groups, shape.offset);
  const int64_t block_bytes = shape.block_bytes, code_bytes = shape.scales_at, ahead = shape.ahead;
  constexpr int kGroups = kHalf ? 2 : 1;
  Scales scales[2] = {Scales(w), Scales(w)};
  __m256 acc[2][1] = {{_mm256_setzero_ps()}, {_mm256_setzero_ps()}};
  const int8_t* q = row.q[0];
  int64_t g = 0;
  for (int64_t b = 0; b < shape.blocks; ++b) {
    const uint8_t* at[2];
#pragma GCC unroll 2
    for (int s = 0; s < 2; ++s) {
      at[s] = pair.at[s] + b * block_bytes;
      prefetch_lines(at[s] + ahead + code_bytes, block_bytes - code_bytes);
      scales[s].open(at[s]);
    }
    for (int64_t group = 0; group < shape.block_groups; group += kGroups, g += kGroups) {
      __m256i sum[kGroups][2][1];
      sum_far<C, kHalf>(shape, at, q, sum);
      GroupScales of[2][kGroups];
      scales[0].template read<kGroups>(group, of[0]);
      scales[1].template read<kGroups>(group, of[1]);
#pragma GCC unroll 2
      for (int i = 0; i < kGroups; ++i)
        row.take(g + i, {of[0][i], of[1][i]}, scales[0].has_bias(), sum[i], acc);
    }
  }
#pragma GCC unroll 2
  for (int s = 0; s < 2; ++s) store_rows(out, first_m, pair.row[s], shape.rows, acc[s][0]);
}

/// The same where a block is one group: its scales lie behind its codes, before the next.
template <class C, class Scales, bool kHalf>
static __attribute__((noinline)) void one_row_flat(const PackedCodes& w, const CodeShape& shape,
                                                   const QuantRows& x, const StripPair& pair, int64_t first_m,
                                                   const LinearOut& out) {
  const RowTile<1> row(x, first_m, shape.groups, shape.offset);
  const Scales scales(w);
  const uint8_t* at[2] = {pair.at[0], pair.at[1]};
  const int8_t* q = row.q[0];
  __m256 acc[2][1] = {{_mm256_setzero_ps()}, {_mm256_setzero_ps()}};
  for (int64_t g = 0; g < shape.groups; ++g) {
    __m256i sum[1][2][1];
    sum_far<C, kHalf>(shape, at, q, sum);
    prefetch_lines(at[0] + shape.ahead, 1);
    prefetch_lines(at[1] + shape.ahead, 1);
    row.take(g, {scales.read(at[0]), scales.read(at[1])}, scales.has_bias(), sum[0], acc);
    at[0] += shape.scale_step;
    at[1] += shape.scale_step;
  }
#pragma GCC unroll 2
  for (int s = 0; s < 2; ++s) store_rows(out, first_m, pair.row[s], shape.rows, acc[s][0]);
}

/// Row first_m of x against two strips, by the loop for the scales of w.
template <class C, bool kHalf>
static void one_row_by_scales(const PackedCodes& w, const CodeShape& shape, const QuantRows& x,
                              const StripPair& pair, int64_t m, const LinearOut& out) {
  const ScaleType type = w.scale_type;
  if constexpr (!C::kFloat && !C::kSigned && kHalf == C::kSixteens) {
    // Those with groups of 16 have a zero point, two bits aside.
    constexpr bool kBiased = !kHalf || C::kRaised;
    if (type == ScaleType::kNested && w.has_bias() == kBiased)
      return one_row_nested<C, NestedScales<kBiased>, kHalf>(w, shape, x, pair, m, out);
  }
  if constexpr (kHalf && C::kRaised)
    if (type == ScaleType::kPaired && w.has_bias())
      return one_row_nested<C, PairedScales, kHalf>(w, shape, x, pair, m, out);
  if constexpr (!C::kFloat && !kHalf) {
    if (type == ScaleType::kF16)
      return one_row_flat<C, PlainScales<ScaleType::kF16>, kHalf>(w, shape, x, pair, m, out);
    if (type == ScaleType::kBF16)
      return one_row_flat<C, PlainScales<ScaleType::kBF16>, kHalf>(w, shape, x, pair, m, out);
  }
  if constexpr (C::kFloat && !kHalf)
    if (type == ScaleType::kE8M0) return one_row_flat<C, PowerScales, kHalf>(w, shape, x, pair, m, out);
  if constexpr (C::kFloat && kHalf)
    if (type == ScaleType::kE4M3) return one_row<C, SmallFloatScales, kHalf>(w, shape, x, pair, m, out);
  one_row<C, AnyScales, kHalf>(w, shape, x, pair, m, out);
}

/// Two strips at a time from the two halves of the range: the hardware follows two long streams better than
/// two adjacent short ones. An odd strip is paired with itself; rows past the end are not stored.
template <class C, bool kHalf>
static void strips_of(const PackedCodes& w, const QuantRows& x, Range strips, const LinearOut& out) {
  const CodeShape shape(w, w.offset());
  const int64_t half = (strips.last - strips.first + 1) / 2, bytes = shape.strip_bytes;
  for (int64_t i = strips.first; i < strips.first + half; ++i) {
    const bool paired = i + half < strips.last;
    const int64_t other = paired ? i + half : i;
    const StripPair pair = {{shape.codes + i * bytes, shape.codes + other * bytes},
                            {i * kStripRows, paired ? other * kStripRows : w.strips() * kStripRows}};
    int64_t m = 0;
    for (; m + 3 <= x.m; m += 3) strips_tile<C, kHalf, 3>(shape, x, pair, m, out);
    if (x.m - m == 2) strips_tile<C, kHalf, 2>(shape, x, pair, m, out);
    if (x.m - m == 1) one_row_by_scales<C, kHalf>(w, shape, x, pair, m, out);
  }
}

template <class C>
static void multiply_strips(const PackedCodes& w, const QuantRows& x, Range strips, const LinearOut& out) {
  if constexpr (C::kSixteens)
    if (w.group < kChunk) return strips_of<C, true>(w, x, strips, out);
  strips_of<C, false>(w, x, strips, out);
}

}  // namespace penstock::exec::cpu
