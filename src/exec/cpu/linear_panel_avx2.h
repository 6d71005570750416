// Codes times many activation rows: the codes of two strips are unpacked once, while they meet the first four
// rows, into a panel of bytes that stays in the cache for the other rows, four at a time.
#pragma once

#include "exec/cpu/linear_one_avx2.h"

namespace penstock::exec::cpu {

/// Two strips unpacked to bytes: codes [cols / 4][2 strips][8 rows][4 columns], scales [groups][2 strips]
/// [scales, biases][8 rows].
struct CodePanel {
  uint8_t* codes;
  float* scales;
};

/// A chunk of two strips that is being unpacked.
template <class C>
struct FreshChunk {
  const C first, second;
  uint8_t* panel;

  template <int kStep>
  inline __attribute__((always_inline)) void load(__m256i (&w)[2]) const {
    w[0] = first.template step<kStep>();
    w[1] = second.template step<kStep>();
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(panel + kStep * 64), w[0]);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(panel + kStep * 64 + 32), w[1]);
  }
};

struct StoredChunk {
  const uint8_t* panel;

  template <int kStep>
  inline __attribute__((always_inline)) void load(__m256i (&w)[2]) const {
    w[0] = load_bytes(panel + kStep * 64);
    w[1] = load_bytes(panel + kStep * 64 + 32);
  }
};

/// Where a tile is in the codes of a pair of strips.
struct PairPlace {
  const uint8_t* block;  // of the first strip
  const uint8_t* chunk;
  int64_t group;        // within the block
  int64_t strip_bytes;  // to the second strip
};

/// The scales of a group of both strips to the panel.
static inline __attribute__((always_inline)) void unpack_scales(const ScaleReader& reader,
                                                                const PairPlace& place, float* to) {
#pragma GCC unroll 2
  for (int s = 0; s < 2; ++s) {
    const GroupScales scales = reader.read(place.block + s * place.strip_bytes, place.group);
    _mm256_storeu_ps(to + s * 16, scales.scale);
    _mm256_storeu_ps(to + s * 16 + 8, scales.bias);
  }
}

/// sums takes steps [kFirst, kEnd) of one chunk, kFresh: from the codes at `place`, otherwise from `bytes`.
/// kAhead: asks for the same chunk of the two strips that come after.
template <class C, bool kStarts, bool kFresh, bool kAhead, int kFirst, int kEnd, int MT>
static inline __attribute__((always_inline)) void add_chunk(const PairPlace& place, uint8_t* bytes,
                                                            const int8_t* const (&q)[MT], int64_t column,
                                                            __m256i (&sums)[2][MT]) {
  __m256i part[2][MT];
  if constexpr (kAhead && kFirst == 0) {
    prefetch_lines(place.chunk + 2 * place.strip_bytes, C::kBytes);
    prefetch_lines(place.chunk + 3 * place.strip_bytes, C::kBytes);
  }
  if constexpr (kFresh) {
    const FreshChunk<C> chunk = {C(place.chunk), C(place.chunk + place.strip_bytes), bytes};
    add_steps<C, kStarts, kFirst, kEnd>(chunk, q, column, part, sums);
  } else {
    add_steps<C, kStarts, kFirst, kEnd>(StoredChunk{bytes}, q, column, part, sums);
  }
}

/// Activation rows first_m .. first_m + MT - 1 against strips `strip` and `strip` + 1.
template <class C, bool kHalf, bool kFresh, bool kAhead, int MT>
static void panel_tile(const CodeShape& shape, const QuantRows& x, int64_t strip, int64_t first_m,
                       const CodePanel& panel, const LinearOut& out) {
  const RowTile<MT> rows(x, first_m, shape.groups, shape.offset);
  const int64_t groups = shape.groups, chunks = shape.chunks;
  const uint8_t* codes = shape.codes + strip * shape.strip_bytes;
  PairPlace place = {codes, codes, 0, shape.strip_bytes};
  const bool has_bias = shape.reader.has_bias();
  uint8_t* bytes = panel.codes;
  float* scales = panel.scales;
  int64_t column = 0;
  __m256 acc[2][MT];
#pragma GCC unroll 2
  for (int s = 0; s < 2; ++s)
#pragma GCC unroll 4
    for (int m = 0; m < MT; ++m) acc[s][m] = _mm256_setzero_ps();
  const auto take = [&](int64_t g, __m256i(&sums)[2][MT]) __attribute__((always_inline)) {
    if constexpr (kFresh) unpack_scales(shape.reader, place, scales);
    if constexpr (kAhead) {
      shape.ask_scales(place.block + 2 * place.strip_bytes, place.group);
      shape.ask_scales(place.block + 3 * place.strip_bytes, place.group);
    }
    rows.take(g,
              {{_mm256_loadu_ps(scales), _mm256_loadu_ps(scales + 8)},
               {_mm256_loadu_ps(scales + 16), _mm256_loadu_ps(scales + 24)}},
              has_bias, sums, acc);
    scales += 32;
    ++place.group;
  };
  const auto next_chunk = [&]() __attribute__((always_inline)) {
    place.chunk += C::kBytes;
    bytes += 8 * 64;
    column += kChunk;
  };
  for (int64_t g = 0; g < groups; ++g) {
    __m256i sums[2][MT];
    if constexpr (kHalf) {
      add_chunk<C, true, kFresh, kAhead, 0, 4>(place, bytes, rows.q, column, sums);
      take(g++, sums);
      add_chunk<C, true, kFresh, kAhead, 4, 8>(place, bytes, rows.q, column, sums);
      next_chunk();
    } else {
      add_chunk<C, true, kFresh, kAhead, 0, 8>(place, bytes, rows.q, column, sums);
      next_chunk();
      for (int64_t c = 1; c < chunks; ++c, next_chunk())
        add_chunk<C, false, kFresh, kAhead, 0, 8>(place, bytes, rows.q, column, sums);
    }
    take(g, sums);
    if (place.group == shape.block_groups) {
      place.block += shape.block_bytes;
      place.chunk = place.block;
      place.group = 0;
    }
  }
#pragma GCC unroll 2
  for (int s = 0; s < 2; ++s)
#pragma GCC unroll 4
    for (int m = 0; m < MT; ++m)
      store_rows(out, first_m + m, (strip + s) * kStripRows, shape.rows, acc[s][m]);
}

/// Pairs of strips, an odd last one is left out; at least four activation rows.
template <class C, bool kHalf>
static void panels_of(const PackedCodes& w, const QuantRows& x, Range strips, const LinearOut& out,
                      const CodePanel& panel) {
  const CodeShape shape(w, w.offset());
  for (int64_t strip = strips.first; strip + 2 <= strips.last; strip += 2) {
    // The tile that unpacks leaves the asking to the next one where there is one: it waits for memory itself.
    int64_t m = 4;
    if (x.m >= 8) {
      panel_tile<C, kHalf, true, false, 4>(shape, x, strip, 0, panel, out);
      panel_tile<C, kHalf, false, true, 4>(shape, x, strip, 4, panel, out);
      m = 8;
    } else {
      panel_tile<C, kHalf, true, true, 4>(shape, x, strip, 0, panel, out);
    }
    for (; m + 4 <= x.m; m += 4) panel_tile<C, kHalf, false, false, 4>(shape, x, strip, m, panel, out);
    if (x.m - m == 3) panel_tile<C, kHalf, false, false, 3>(shape, x, strip, m, panel, out);
    if (x.m - m == 2) panel_tile<C, kHalf, false, false, 2>(shape, x, strip, m, panel, out);
    if (x.m - m == 1) panel_tile<C, kHalf, false, false, 1>(shape, x, strip, m, panel, out);
  }
}

template <class C>
static void multiply_panels(const PackedCodes& w, const QuantRows& x, Range strips, const LinearOut& out,
                            uint8_t* scratch) {
  const CodePanel panel = {scratch, reinterpret_cast<float*>(scratch + w.cols * 2 * kStripRows)};
  if constexpr (C::kSixteens)
    if (w.group < kChunk) return panels_of<C, true>(w, x, strips, out, panel);
  panels_of<C, false>(w, x, strips, out, panel);
}

template <class C>
static constexpr LayoutAvx2 kLayoutAvx2 = {multiply_strips<C>, multiply_panels<C>, unpack_floats<C>};

}  // namespace penstock::exec::cpu
