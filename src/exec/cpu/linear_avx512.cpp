// Packed codes times int8 activations with AVX-512 VNNI: a few activation rows straight from the codes of far
// pairs of strips, panels of 32 rows for many. Sums are exact, so the bits are those of every other table.
#include "exec/cpu/kernels_avx512.h"
#include "exec/cpu/simd_avx512.h"

namespace penstock::exec::cpu {

namespace {

constexpr int32_t kPanelFrom = 12;  // activation rows that pay for unpacking a panel
constexpr int kMostPairs = 2;

/// Eight-bit codes are made unsigned again before they are multiplied.
int32_t offset_of(const PackedCodes& w) {
  return w.has_bias() ? 0 : -w.zero;
}

template <class C, int kFirst, int kEnd, int MT, int kDone = 0>
inline __attribute__((always_inline)) void add_steps(const C& codes, const int8_t* q, int64_t stride,
                                                     __m512i (&sums)[MT]) {
  constexpr int kStep = kFirst + kDone;
  if constexpr (kStep < kEnd) {
    const __m512i code = C::plain(codes.template step<kStep>());
#pragma GCC unroll 8
    for (int m = 0; m < MT; ++m)
      sums[m] = _mm512_dpbusd_epi32(sums[m], code, spread4(q + m * stride + 4 * kStep));
    add_steps<C, kFirst, kEnd, MT, kDone + 1>(codes, q, stride, sums);
  }
}

/// MT activation rows from row first_m on.
template <int MT>
struct Rows {
  const int8_t* q;
  const float *scales, *sums;
  const int32_t* code_sums;
  int64_t cols, groups;
  int32_t offset;
  bool has_bias;

  Rows(const PackedCodes& w, const QuantRows& x, int64_t first_m)
      : q(x.codes + first_m * x.cols),
        scales(x.scales + first_m * w.groups()),
        sums(x.sums + first_m * w.groups()),
        code_sums(x.code_sums + first_m * w.groups()),
        cols(x.cols),
        groups(w.groups()),
        offset(offset_of(w)),
        has_bias(w.has_bias()) {}

  inline __attribute__((always_inline)) void start(int64_t g, __m512i (&sum)[MT]) const {
#pragma GCC unroll 8
    for (int m = 0; m < MT; ++m)
      sum[m] = offset == 0 ? _mm512_setzero_si512() : _mm512_set1_epi32(offset * code_sums[m * groups + g]);
  }

  inline __attribute__((always_inline)) void take(int64_t g, const PairScales& w, const __m512i (&sum)[MT],
                                                  __m512 (&acc)[MT]) const {
#pragma GCC unroll 8
    for (int m = 0; m < MT; ++m)
      acc[m] = take_group_sum(acc[m], w, has_bias, sum[m], scales[m * groups + g], sums[m * groups + g]);
  }
};

/// Always inlined, see simd_avx2.h.
inline __attribute__((always_inline)) void prefetch_lines(Zmm::Place at, int64_t bytes) {
  for (int64_t line = 0; line < bytes; line += 64) {
    _mm_prefetch(reinterpret_cast<const char*>(at.low + line), _MM_HINT_T0);
    _mm_prefetch(reinterpret_cast<const char*>(at.high + line), _MM_HINT_T0);
  }
}

/// What the tiles need of a matrix, worked out once a call.
struct CodeShape {
  const ScaleReader scales;
  const int64_t block_bytes, blocks, block_groups, scales_at, scale_step;
  const int64_t ahead;  // bytes from what is read to what is asked for, a block where blocks are long

  explicit CodeShape(const PackedCodes& w)
      : scales(w),
        block_bytes(w.block_bytes()),
        blocks(w.blocks_of_strip()),
        block_groups(w.block_groups()),
        scales_at(w.code_bytes()),
        scale_step((w.block_bytes() - w.code_bytes()) / w.block_groups()),
        ahead(w.block_bytes() > 1024 ? w.block_bytes() : 1024) {}
};

/// Where a group of a pair of strips lies, or a pair of groups of 16 columns that share a chunk.
struct GroupPlace {
  Zmm::Place block;
  int64_t group;        // within the block
  int64_t g;            // within the row
  int64_t first_chunk;  // within the block
  int64_t chunks;
};

template <class C, bool kHalf, int MT>
inline __attribute__((always_inline)) void take_group(const Rows<MT>& rows, const CodeShape& shape,
                                                      const GroupPlace& place, __m512 (&acc)[MT]) {
  __m512i sum[MT];
  const auto& [block, group, g, first_chunk, chunks] = place;
  Zmm::Place at = block + first_chunk * C::kBytes;
  prefetch_lines(block + (shape.ahead + shape.scales_at + group * shape.scale_step), 1);
  rows.start(g, sum);
  if constexpr (kHalf) {
    prefetch_lines(at + shape.ahead, C::kBytes);
    add_steps<C, 0, 4, MT>(C(at), rows.q + g * 16, rows.cols, sum);
    rows.take(g, read_pair(shape.scales, block, group), sum, acc);
    rows.start(g + 1, sum);
    add_steps<C, 4, 8, MT>(C(at), rows.q + g * 16, rows.cols, sum);
    rows.take(g + 1, read_pair(shape.scales, block, group + 1), sum, acc);
  } else {
    for (int64_t c = 0; c < chunks; ++c, at = at + C::kBytes) {
      prefetch_lines(at + shape.ahead, C::kBytes);
      add_steps<C, 0, 8, MT>(C(at), rows.q + (g * chunks + c) * kChunk, rows.cols, sum);
    }
    rows.take(g, read_pair(shape.scales, block, group), sum, acc);
  }
}

struct Pairs {
  Zmm::Place at[kMostPairs];
  int64_t row[kMostPairs][2];
};

void store_pair(const LinearOut& out, int64_t m, const int64_t (&row)[2], int64_t rows, __m512 value) {
  store_rows(out, m, row[0], rows, _mm512_castps512_ps256(value));
  store_rows(out, m, row[1], rows, _mm512_extractf32x8_ps(value, 1));
}

template <class C, bool kHalf, int kPairs, int MT>
void strips_tile(const PackedCodes& w, const QuantRows& x, const Pairs& pairs, int64_t first_m,
                 const LinearOut& out) {
  const Rows<MT> rows(w, x, first_m);
  const CodeShape shape(w);
  const int64_t chunks = kHalf ? 1 : w.group / kChunk;
  constexpr int64_t kGroups = kHalf ? 2 : 1;
  __m512 acc[kPairs][MT];
#pragma GCC unroll 2
  for (int p = 0; p < kPairs; ++p)
#pragma GCC unroll 8
    for (int m = 0; m < MT; ++m) acc[p][m] = _mm512_setzero_ps();
  int64_t g = 0;
  for (int64_t b = 0; b < shape.blocks; ++b)
    for (int64_t group = 0; group < shape.block_groups; group += kGroups, g += kGroups)
#pragma GCC unroll 2
      for (int p = 0; p < kPairs; ++p)
        take_group<C, kHalf, MT>(
            rows, shape, {pairs.at[p] + b * shape.block_bytes, group, g, group / kGroups * chunks, chunks},
            acc[p]);
  for (int p = 0; p < kPairs; ++p)
    for (int m = 0; m < MT; ++m) store_pair(out, first_m + m, pairs.row[p], w.rows, acc[p][m]);
}

template <class C, bool kHalf>
void strips_rows(const PackedCodes& w, const QuantRows& x, const Pairs& pairs, const LinearOut& out) {
  int64_t m = 0;
  for (; m + 8 <= x.m; m += 8) strips_tile<C, kHalf, kMostPairs, 8>(w, x, pairs, m, out);
  for (; m + 4 <= x.m; m += 4) strips_tile<C, kHalf, kMostPairs, 4>(w, x, pairs, m, out);
  if (x.m - m == 3) strips_tile<C, kHalf, kMostPairs, 3>(w, x, pairs, m, out);
  if (x.m - m == 2) strips_tile<C, kHalf, kMostPairs, 2>(w, x, pairs, m, out);
  if (x.m - m == 1) strips_tile<C, kHalf, kMostPairs, 1>(w, x, pairs, m, out);
}

/// Four strips at a time from the quarters of the range. Where there are fewer, a strip stands in for the
/// missing ones and its copies are not stored.
template <class C>
void multiply_strips(const PackedCodes& w, const QuantRows& x, Range strips, const LinearOut& out) {
  const int64_t quarter = (strips.last - strips.first + 3) / 4, bytes = w.strip_bytes();
  for (int64_t i = strips.first; i < strips.first + quarter; ++i) {
    Pairs pairs;
    for (int s = 0; s < 4; ++s) {
      const int64_t wanted = i + s * quarter;
      const bool present = wanted < strips.last;
      const uint8_t* at = w.blocks + (present ? wanted : i) * bytes;
      (s % 2 == 0 ? pairs.at[s / 2].low : pairs.at[s / 2].high) = at;
      pairs.row[s / 2][s % 2] = present ? wanted * kStripRows : w.strips() * kStripRows;
    }
    if constexpr (C::kSixteens)
      if (w.group < kChunk) {
        strips_rows<C, true>(w, x, pairs, out);
        continue;
      }
    strips_rows<C, false>(w, x, pairs, out);
  }
}

/// Four strips: unsigned codes [cols / 4][2 pairs][64], scales [groups][2 pairs][scale, bias][16].
struct Panel {
  uint8_t* codes;
  float* scales;
};

template <class C, int kStep = 0>
inline __attribute__((always_inline)) void unpack_steps(const C& codes, uint8_t* to) {
  if constexpr (kStep < 8) {
    _mm512_storeu_si512(to + kStep * 128, C::plain(codes.template step<kStep>()));
    unpack_steps<C, kStep + 1>(codes, to);
  }
}

template <class C>
void unpack_pair(const PackedCodes& w, int64_t strip, int half, const Panel& panel) {
  const ScaleReader scales(w);
  const uint8_t* first = w.blocks + strip * w.strip_bytes();
  Zmm::Place block = {first, first + w.strip_bytes()};
  uint8_t* to = panel.codes + half * 64;
  float* scale_to = panel.scales + half * 32;
  for (int64_t b = 0; b < w.blocks_of_strip(); ++b, block = block + w.block_bytes()) {
    for (int64_t g = 0; g < w.block_groups(); ++g, scale_to += 64) {
      const PairScales group = read_pair(scales, block, g);
      _mm512_storeu_ps(scale_to, group.scale);
      _mm512_storeu_ps(scale_to + 16, group.bias);
    }
    for (int64_t c = 0; c < w.block_cols() / kChunk; ++c, to += 8 * 128)
      unpack_steps(C(block + c * C::kBytes), to);
  }
}

/// kAhead: asks for the four strips that come after, which follow in memory.
template <int MT, bool kAhead>
void panel_tile(const PackedCodes& w, const QuantRows& x, const Panel& panel, int64_t first_m, int64_t strip,
                const LinearOut& out) {
  const Rows<MT> rows(w, x, first_m);
  const uint8_t* next = w.blocks + (strip + 4) * w.strip_bytes();
  const int64_t next_share = (4 * w.strip_bytes() / rows.groups + 63) / 64 * 64;
  const int64_t steps = w.group / 4;
  const uint8_t* codes = panel.codes;
  const float* weights = panel.scales;
  const int8_t* q = rows.q;
  __m512 acc[2][MT];
  for (int p = 0; p < 2; ++p)
    for (int m = 0; m < MT; ++m) acc[p][m] = _mm512_setzero_ps();
  for (int64_t g = 0; g < rows.groups; ++g, weights += 64) {
    __m512i sum[2][MT];
    if constexpr (kAhead)
      for (int64_t line = 0; line < next_share; line += 64, next += 64)
        _mm_prefetch(reinterpret_cast<const char*>(next), _MM_HINT_T1);
    rows.start(g, sum[0]);
    rows.start(g, sum[1]);
    for (int64_t step = 0; step < steps; step += 4, codes += 4 * 128, q += 16)
#pragma GCC unroll 4
      for (int s = 0; s < 4; ++s) {
        const __m512i w0 = _mm512_loadu_si512(codes + s * 128), w1 = _mm512_loadu_si512(codes + s * 128 + 64);
#pragma GCC unroll 8
        for (int m = 0; m < MT; ++m) {
          const __m512i x4 = spread4(q + m * rows.cols + 4 * s);
          sum[0][m] = _mm512_dpbusd_epi32(sum[0][m], w0, x4);
          sum[1][m] = _mm512_dpbusd_epi32(sum[1][m], w1, x4);
        }
      }
#pragma GCC unroll 2
    for (int p = 0; p < 2; ++p)
      rows.take(g, {_mm512_loadu_ps(weights + p * 32), _mm512_loadu_ps(weights + p * 32 + 16)}, sum[p],
                acc[p]);
  }
  for (int p = 0; p < 2; ++p)
    for (int m = 0; m < MT; ++m)
      store_pair(out, first_m + m, {(strip + 2 * p) * kStripRows, (strip + 2 * p + 1) * kStripRows}, w.rows,
                 acc[p][m]);
}

template <class C>
void multiply_panels(const PackedCodes& w, const QuantRows& x, Range strips, const LinearOut& out,
                     uint8_t* scratch) {
  const Panel panel = {scratch, reinterpret_cast<float*>(scratch + w.cols * 4 * kStripRows)};
  for (int64_t strip = strips.first; strip + 4 <= strips.last; strip += 4) {
    unpack_pair<C>(w, strip, 0, panel);
    unpack_pair<C>(w, strip + 2, 1, panel);
    int64_t m = 0;
    if (x.m >= 8) {
      panel_tile<8, true>(w, x, panel, 0, strip, out);
      m = 8;
    }
    for (; m + 8 <= x.m; m += 8) panel_tile<8, false>(w, x, panel, m, strip, out);
    for (; m + 4 <= x.m; m += 4) panel_tile<4, false>(w, x, panel, m, strip, out);
    for (; m < x.m; ++m) panel_tile<1, false>(w, x, panel, m, strip, out);
  }
}

template <class C>
void multiply(const PackedCodes& w, const QuantRows& x, Range strips, const LinearOut& out,
              uint8_t* scratch) {
  if (x.m >= kPanelFrom) {
    multiply_panels<C>(w, x, strips, out, scratch);
    strips.first = strips.last - (strips.last - strips.first) % 4;
  }
  if (strips.first < strips.last) multiply_strips<C>(w, x, strips, out);
}

}  // namespace

void linear_codes_avx512(const PackedCodes& w, const QuantRows& x, Range strips, const LinearOut& out,
                         uint8_t* scratch) {
  with_codes<Zmm>(w.layout, [&]<class C>() { multiply<C>(w, x, strips, out, scratch); });
}

}  // namespace penstock::exec::cpu
