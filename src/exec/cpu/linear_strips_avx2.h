// The loops over packed codes that all layouts share: a few activation rows straight from the codes, and
// float32 columns for exact mode. Groups in order; group sums are exact integers.
#pragma once

#include "exec/cpu/code_shape.h"
#include "exec/cpu/kernels_avx2.h"

namespace penstock::exec::cpu {

/// A chunk of one strip, straight from the codes.
template <class C>
struct CodeChunk {
  const C codes;

  template <int kStep>
  inline __attribute__((always_inline)) void load(__m256i (&w)[1]) const {
    w[0] = codes.template step<kStep>();
  }
};

/// Steps [kFirst + kDone, kEnd) of a chunk of S strips, whose first column is `column` of the activations,
/// are added to sums[strip][m], or (kStarts) written there.
template <class C, bool kStarts, int kFirst, int kEnd, int kDone = 0, class Chunk, int S, int MT>
static inline __attribute__((always_inline)) void add_steps(const Chunk& chunk, const int8_t* const (&q)[MT],
                                                            int64_t column, __m256i (&part)[S][MT],
                                                            __m256i (&sums)[S][MT]) {
  constexpr int kStep = kFirst + kDone;
  if constexpr (kStep < kEnd) {
    __m256i w[S];
    chunk.template load<kStep>(w);
#pragma GCC unroll 4
    for (int m = 0; m < MT; ++m) {
      const __m256i x = broadcast4(q[m] + column + 4 * kStep);
#pragma GCC unroll 2
      for (int s = 0; s < S; ++s) {
        const __m256i product = multiply_pairs<C::kSigned>(w[s], x);
        part[s][m] = kDone % C::kFlush == 0 ? product : _mm256_add_epi16(part[s][m], product);
        PENSTOCK_KEEP_ORDER(part[s][m]);
        if (kDone % C::kFlush < C::kFlush - 1 && kStep + 1 < kEnd) continue;
        const __m256i sum = _mm256_madd_epi16(part[s][m], _mm256_set1_epi16(1));
        sums[s][m] = kStarts && kDone < C::kFlush ? sum : _mm256_add_epi32(sums[s][m], sum);
      }
    }
    add_steps<C, kStarts, kFirst, kEnd, kDone + 1>(chunk, q, column, part, sums);
  }
}

struct StripPair {
  const uint8_t* at[2];
  int64_t row[2];
};

/// MT activation rows from row first_m on.
template <int MT>
struct RowTile {
  const int8_t* q[MT];
  const float *scales, *sums;
  const int32_t* code_sums;
  int64_t groups;
  int32_t offset;

  RowTile(const QuantRows& x, int64_t first_m, int64_t n_groups, int32_t code_offset)
      : scales(x.scales + first_m * n_groups),
        sums(x.sums + first_m * n_groups),
        code_sums(x.code_sums + first_m * n_groups),
        groups(n_groups),
        offset(code_offset) {
#pragma GCC unroll 4
    for (int m = 0; m < MT; ++m) q[m] = x.codes + (first_m + m) * x.cols;
  }

  /// acc[strip][m] takes group g, whose sums of stored codes are `sum`.
  template <int S>
  inline __attribute__((always_inline)) void take(int64_t g, const GroupScales (&w)[S], bool has_bias,
                                                  __m256i (&sum)[S][MT], __m256 (&acc)[S][MT]) const {
    if (offset != 0) {
#pragma GCC unroll 4
      for (int m = 0; m < MT; ++m) {
        const __m256i all = _mm256_set1_epi32(offset * code_sums[m * groups + g]);
#pragma GCC unroll 2
        for (int s = 0; s < S; ++s) sum[s][m] = _mm256_add_epi32(sum[s][m], all);
      }
    }
#pragma GCC unroll 4
    for (int m = 0; m < MT; ++m) {
      const __m256 a = _mm256_set1_ps(scales[m * groups + g]);
#pragma GCC unroll 2
      for (int s = 0; s < S; ++s)
        acc[s][m] = _mm256_fmadd_ps(_mm256_mul_ps(w[s].scale, a), _mm256_cvtepi32_ps(sum[s][m]), acc[s][m]);
      if (!has_bias) continue;
      const __m256 b = _mm256_set1_ps(sums[m * groups + g]);
#pragma GCC unroll 2
      for (int s = 0; s < S; ++s) acc[s][m] = _mm256_fmadd_ps(w[s].bias, b, acc[s][m]);
    }
  }
};

/// Where a group of one strip lies, or a pair of groups of 16 columns that share a chunk.
struct GroupPlace {
  const uint8_t* block;
  int64_t group;        // within the block
  int64_t g;            // within the row
  int64_t first_chunk;  // within the block
  int64_t chunks;
};

template <class C, bool kHalf, int MT>
static inline __attribute__((always_inline)) void take_group(const RowTile<MT>& rows, const CodeShape& shape,
                                                             const GroupPlace& place, __m256 (&acc)[1][MT]) {
  __m256i part[1][MT], sum[1][MT];
  const auto& [block, group, g, first_chunk, chunks] = place;
  const uint8_t* at = block + first_chunk * C::kBytes;
  const auto take = [&](int64_t index) __attribute__((always_inline)) {
    rows.take(g + index, {shape.reader.read(block, group + index)}, shape.reader.has_bias(), sum, acc);
  };
  shape.ask_scales(block + shape.ahead, group);
  prefetch_lines(at + shape.ahead, C::kBytes);
  if constexpr (kHalf) {
    add_steps<C, true, 0, 4>(CodeChunk<C>{C(at)}, rows.q, g * 16, part, sum);
    take(0);
    add_steps<C, true, 4, 8>(CodeChunk<C>{C(at)}, rows.q, g * 16, part, sum);
    take(1);
  } else {
    add_steps<C, true, 0, 8>(CodeChunk<C>{C(at)}, rows.q, g * chunks * kChunk, part, sum);
    for (int64_t c = 1; c < chunks; ++c) {
      at += C::kBytes;
      prefetch_lines(at + shape.ahead, C::kBytes);
      add_steps<C, false, 0, 8>(CodeChunk<C>{C(at)}, rows.q, (g * chunks + c) * kChunk, part, sum);
    }
    take(0);
  }
}

/// Rows first_m .. first_m + MT - 1 of x against two strips.
template <class C, bool kHalf, int MT>
static __attribute__((noinline)) void strips_tile(const CodeShape& shape, const QuantRows& x,
                                                  const StripPair& pair, int64_t first_m,
                                                  const LinearOut& out) {
  const RowTile<MT> rows(x, first_m, shape.groups, shape.offset);
  const int64_t block_bytes = shape.block_bytes, chunks = shape.chunks;
  constexpr int64_t kGroups = kHalf ? 2 : 1;
  __m256 acc[2][1][MT];
#pragma GCC unroll 2
  for (int s = 0; s < 2; ++s)
#pragma GCC unroll 4
    for (int m = 0; m < MT; ++m) acc[s][0][m] = _mm256_setzero_ps();
  int64_t g = 0;
  for (int64_t b = 0; b < shape.blocks; ++b)
    for (int64_t group = 0; group < shape.block_groups; group += kGroups, g += kGroups) {
#pragma GCC unroll 2
      for (int s = 0; s < 2; ++s) {
        // Without this the broadcast activations of the first strip are kept on the stack for the second.
        if (MT > 1) asm volatile("" ::: "memory");
        take_group<C, kHalf, MT>(
            rows, shape, {pair.at[s] + b * block_bytes, group, g, group / kGroups * chunks, chunks}, acc[s]);
      }
    }
#pragma GCC unroll 2
  for (int s = 0; s < 2; ++s)
#pragma GCC unroll 4
    for (int m = 0; m < MT; ++m) store_rows(out, first_m + m, pair.row[s], shape.rows, acc[s][0][m]);
}

/// Four columns of eight rows as float32 values of the weights.
template <class C>
static inline void unpack_floats_step(__m256i code, const PackedCodes& w, const GroupScales& scales,
                                      float* to) {
  const __m256i plain = C::plain(code), byte = _mm256_set1_epi32(255);
  for (int i = 0; i < 4; ++i) {
    const __m256i column = _mm256_and_si256(_mm256_srl_epi32(plain, _mm_cvtsi32_si128(8 * i)), byte);
    const __m256 value =
        w.has_bias() ? _mm256_fmadd_ps(_mm256_cvtepi32_ps(column), scales.scale, scales.bias)
                     : _mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_sub_epi32(column, _mm256_set1_epi32(w.zero))),
                                     scales.scale);
    _mm256_storeu_ps(to + i * kExactRows, value);
  }
}

template <class C, int kStep = 0>
static inline void unpack_floats_steps(const C& codes, const PackedCodes& w, const GroupScales (&scales)[2],
                                       float* to) {
  if constexpr (kStep < 8) {
    unpack_floats_step<C>(codes.template step<kStep>(), w, scales[kStep / 4], to + kStep * 4 * kExactRows);
    unpack_floats_steps<C, kStep + 1>(codes, w, scales, to);
  }
}

/// Columns [first, first + n), whole chunks, of one strip to to[column * kExactRows + 0..7].
template <class C>
static void unpack_floats(const PackedCodes& w, int64_t strip, int64_t first, int64_t n, float* to) {
  const ScaleReader reader(w);
  for (int64_t c = first; c < first + n; c += kChunk, to += kChunk * kExactRows) {
    const uint8_t* block = w.blocks + strip * w.strip_bytes() + c / w.block_cols() * w.block_bytes();
    const int64_t column = c % w.block_cols();
    const GroupScales scales[2] = {reader.read(block, column / w.group),
                                   reader.read(block, (column + kChunk / 2) / w.group)};
    unpack_floats_steps(C(block + column / kChunk * C::kBytes), w, scales, to);
  }
}

}  // namespace penstock::exec::cpu
