// Packed codes times int8 activations with AVX-512 VNNI: a few activation rows straight from the codes of far
// pairs of strips, panels of 32 rows for many. Sums are exact, so the bits are those of every other table.
#include "exec/cpu/code_shape.h"
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

  Rows(const CodeShape& shape, const QuantRows& x, int64_t first_m)
      : q(x.codes + first_m * x.cols),
        scales(x.scales + first_m * shape.groups),
        sums(x.sums + first_m * shape.groups),
        code_sums(x.code_sums + first_m * shape.groups),
        cols(x.cols),
        groups(shape.groups),
        offset(shape.offset),
        has_bias(shape.reader.has_bias()) {}

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

/// Scales of a pair of strips, of any type.
class AnyScales {
 public:
  explicit AnyScales(const CodeShape& shape) : reader_(shape.reader) {}

  inline __attribute__((always_inline)) PairScales read(Zmm::Place block, int64_t group) const {
    const GroupScales low = reader_.read(block.low, group), high = reader_.read(block.high, group);
    return {join(low.scale, high.scale), join(low.bias, high.bias)};
  }

 private:
  const ScaleReader& reader_;
};

/// Half precision or bfloat16, one group in a block.
template <ScaleType kType>
class PlainScales {
 public:
  explicit PlainScales(const CodeShape& shape)
      : has_bias_(shape.reader.has_bias()), scales_(shape.scales_at) {}

  inline __attribute__((always_inline)) PairScales read(Zmm::Place block, int64_t /*group*/) const {
    const Zmm::Place at = block + scales_;
    return {one(at), has_bias_ ? one(at + 2 * kStripRows) : _mm512_setzero_ps()};
  }

 private:
  static inline __attribute__((always_inline)) __m512 one(Zmm::Place at) {
    const __m256i both = _mm256_inserti128_si256(_mm256_castsi128_si256(eight(at.low)), eight(at.high), 1);
    if constexpr (kType == ScaleType::kF16) return _mm512_cvtph_ps(both);
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(both), 16));
  }
  static __m128i eight(const uint8_t* at) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(at)); }

  const bool has_bias_;
  const int64_t scales_;
};

/// call.operator()<Scales>() for the scales of w.
template <class C, class Call>
void with_scales(const PackedCodes& w, const Call& call) {
  if constexpr (!C::kFloat) {
    if (w.scale_type == ScaleType::kF16) return call.template operator()<PlainScales<ScaleType::kF16>>();
    if (w.scale_type == ScaleType::kBF16) return call.template operator()<PlainScales<ScaleType::kBF16>>();
  }
  call.template operator()<AnyScales>();
}

/// Where a group of a pair of strips lies, or a pair of groups of 16 columns that share a chunk.
struct GroupPlace {
  Zmm::Place block;
  int64_t group;        // within the block
  int64_t g;            // within the row
  int64_t first_chunk;  // within the block
  int64_t chunks;
};

/// acc takes one group, or a pair of groups of 16 columns.
template <class C, bool kHalf, class Scales, int MT>
inline __attribute__((always_inline)) void take_group(const Rows<MT>& rows, const CodeShape& shape,
                                                      const Scales& scales, const GroupPlace& place,
                                                      __m512 (&acc)[MT]) {
  __m512i sum[MT];
  const auto& [block, group, g, first_chunk, chunks] = place;
  Zmm::Place at = block + first_chunk * C::kBytes;
  prefetch_lines(block + (shape.ahead + shape.scales_at + group * shape.scale_step), 1);
  rows.start(g, sum);
  if constexpr (kHalf) {
    prefetch_lines(at + shape.ahead, C::kBytes);
    add_steps<C, 0, 4, MT>(C(at), rows.q + g * 16, rows.cols, sum);
    rows.take(g, scales.read(block, group), sum, acc);
    rows.start(g + 1, sum);
    add_steps<C, 4, 8, MT>(C(at), rows.q + g * 16, rows.cols, sum);
    rows.take(g + 1, scales.read(block, group + 1), sum, acc);
  } else {
    for (int64_t c = 0; c < chunks; ++c, at = at + C::kBytes) {
      prefetch_lines(at + shape.ahead, C::kBytes);
      add_steps<C, 0, 8, MT>(C(at), rows.q + (g * chunks + c) * kChunk, rows.cols, sum);
    }
    rows.take(g, scales.read(block, group), sum, acc);
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

template <class C, bool kHalf, class Scales, int MT>
void strips_tile(const CodeShape& shape, const QuantRows& x, const Pairs& pairs, int64_t first_m,
                 const LinearOut& out) {
  const Rows<MT> rows(shape, x, first_m);
  const Scales scales(shape);
  constexpr int64_t kGroups = kHalf ? 2 : 1;
  __m512 acc[kMostPairs][MT];
#pragma GCC unroll 2
  for (int p = 0; p < kMostPairs; ++p)
#pragma GCC unroll 8
    for (int m = 0; m < MT; ++m) acc[p][m] = _mm512_setzero_ps();
  int64_t g = 0;
  for (int64_t b = 0; b < shape.blocks; ++b)
    for (int64_t group = 0; group < shape.block_groups; group += kGroups, g += kGroups)
#pragma GCC unroll 2
      for (int p = 0; p < kMostPairs; ++p) {
        // Without this the broadcast activations of the first pair are kept on the stack for the second.
        if (MT > 1) asm volatile("" ::: "memory");
        take_group<C, kHalf, Scales, MT>(
            rows, shape, scales,
            {pairs.at[p] + b * shape.block_bytes, group, g, group / kGroups * shape.chunks, shape.chunks},
            acc[p]);
      }
#pragma GCC unroll 2
  for (int p = 0; p < kMostPairs; ++p)
#pragma GCC unroll 8
    for (int m = 0; m < MT; ++m) store_pair(out, first_m + m, pairs.row[p], shape.rows, acc[p][m]);
}

template <class C, bool kHalf, class Scales>
void strips_rows(const CodeShape& shape, const QuantRows& x, const Pairs& pairs, const LinearOut& out) {
  int64_t m = 0;
  for (; m + 8 <= x.m; m += 8) strips_tile<C, kHalf, Scales, 8>(shape, x, pairs, m, out);
  for (; m + 4 <= x.m; m += 4) strips_tile<C, kHalf, Scales, 4>(shape, x, pairs, m, out);
  if (x.m - m == 3) strips_tile<C, kHalf, Scales, 3>(shape, x, pairs, m, out);
  if (x.m - m == 2) strips_tile<C, kHalf, Scales, 2>(shape, x, pairs, m, out);
  if (x.m - m == 1) strips_tile<C, kHalf, Scales, 1>(shape, x, pairs, m, out);
}

/// Four strips at a time from the quarters of the range. Where there are fewer, a strip stands in for the
/// missing ones and its copies are not stored.
template <class C, bool kHalf, class Scales>
void strips_of(const CodeShape& shape, const QuantRows& x, Range strips, const LinearOut& out) {
  const int64_t quarter = (strips.last - strips.first + 3) / 4;
  for (int64_t i = strips.first; i < strips.first + quarter; ++i) {
    Pairs pairs;
    for (int s = 0; s < 4; ++s) {
      const int64_t wanted = i + s * quarter;
      const bool present = wanted < strips.last;
      const uint8_t* at = shape.codes + (present ? wanted : i) * shape.strip_bytes;
      (s % 2 == 0 ? pairs.at[s / 2].low : pairs.at[s / 2].high) = at;
      pairs.row[s / 2][s % 2] = present ? wanted * kStripRows : shape.rows;
    }
    strips_rows<C, kHalf, Scales>(shape, x, pairs, out);
  }
}

template <class C>
void multiply_strips(const PackedCodes& w, const CodeShape& shape, const QuantRows& x, Range strips,
                     const LinearOut& out) {
  if constexpr (C::kSixteens)
    if (w.group < kChunk) return strips_of<C, true, AnyScales>(shape, x, strips, out);
  with_scales<C>(w, [&]<class Scales>() { strips_of<C, false, Scales>(shape, x, strips, out); });
}

/// Four strips: unsigned codes [cols / 4][2 pairs][64], scales [groups][2 pairs][scale, bias][16].
struct Panel {
  uint8_t* codes;
  float* scales;
  int64_t strip;  // the first
  int64_t ahead;  // bytes to ask for with each group, of the four strips behind these
};

template <class C, int kStep = 0>
inline __attribute__((always_inline)) void unpack_steps(const C& codes, uint8_t* to) {
  if constexpr (kStep < 8) {
    _mm512_storeu_si512(to + kStep * 128, C::plain(codes.template step<kStep>()));
    unpack_steps<C, kStep + 1>(codes, to);
  }
}

template <class C>
void unpack_pair(const PackedCodes& w, const CodeShape& shape, int64_t strip, int half, const Panel& panel) {
  const AnyScales scales(shape);
  const uint8_t* first = shape.codes + strip * shape.strip_bytes;
  Zmm::Place block = {first, first + shape.strip_bytes};
  const int64_t chunks = w.block_cols() / kChunk;
  uint8_t* to = panel.codes + half * 64;
  float* scale_to = panel.scales + half * 32;
  for (int64_t b = 0; b < shape.blocks; ++b, block = block + shape.block_bytes) {
    for (int64_t g = 0; g < shape.block_groups; ++g, scale_to += 64) {
      const PairScales group = scales.read(block, g);
      _mm512_storeu_ps(scale_to, group.scale);
      _mm512_storeu_ps(scale_to + 16, group.bias);
    }
    for (int64_t c = 0; c < chunks; ++c, to += 8 * 128) unpack_steps(C(block + c * C::kBytes), to);
  }
}

/// Rows [row, row + 16) of one output row.
inline __attribute__((always_inline)) void store_sixteen(const LinearOut& out, int64_t m, int64_t row,
                                                         int64_t rows, __m512 value) {
  if (row + 2 * kStripRows > rows) return store_pair(out, m, {row, row + kStripRows}, rows, value);
  float* at = out.out + m * out.stride + row;
  if (out.bias != nullptr) value = _mm512_add_ps(value, _mm512_loadu_ps(out.bias + row));
  if (out.add) value = _mm512_add_ps(_mm512_loadu_ps(at), value);
  _mm512_storeu_ps(at, value);
}

/// Asks for what a panel writes, or adds to.
template <int MT>
inline __attribute__((always_inline)) void ask_out(const LinearOut& out, int64_t first_m, int64_t row) {
  const float* at = out.out + first_m * out.stride + row;
#pragma GCC unroll 8
  for (int m = 0; m < MT; ++m, at += out.stride) {
    _mm_prefetch(reinterpret_cast<const char*>(at), _MM_HINT_T0);
    _mm_prefetch(reinterpret_cast<const char*>(at + 16), _MM_HINT_T0);
  }
}

template <int MT>
void panel_tile(const CodeShape& shape, const QuantRows& x, const Panel& panel, int64_t first_m,
                const LinearOut& out) {
  const int64_t strip = panel.strip, ahead = panel.ahead;
  const Rows<MT> rows(shape, x, first_m);
  const uint8_t* next = shape.codes + (strip + 4) * shape.strip_bytes;
  const int64_t steps = x.group / 4;
  const uint8_t* codes = panel.codes;
  const float* weights = panel.scales;
  const int8_t* q = rows.q;
  ask_out<MT>(out, first_m, strip * kStripRows);
  __m512 acc[2][MT];
#pragma GCC unroll 2
  for (int p = 0; p < 2; ++p)
#pragma GCC unroll 8
    for (int m = 0; m < MT; ++m) acc[p][m] = _mm512_setzero_ps();
  for (int64_t g = 0; g < rows.groups; ++g, weights += 64) {
    __m512i sum[2][MT];
    for (int64_t line = 0; line < ahead; line += 64, next += 64)
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
#pragma GCC unroll 8
  for (int m = 0; m < MT; ++m)
#pragma GCC unroll 2
    for (int p = 0; p < 2; ++p)
      store_sixteen(out, first_m + m, (strip + 2 * p) * kStripRows, shape.rows, acc[p][m]);
}

template <class C>
void multiply_panels(const PackedCodes& w, const CodeShape& shape, const QuantRows& x, Range strips,
                     const LinearOut& out, uint8_t* scratch) {
  Panel panel = {scratch, reinterpret_cast<float*>(scratch + w.cols * 4 * kStripRows), 0, 0};
  const int64_t group_share = (4 * shape.strip_bytes / shape.groups + 63) / 64 * 64;
  for (int64_t strip = strips.first; strip + 4 <= strips.last; strip += 4) {
    unpack_pair<C>(w, shape, strip, 0, panel);
    unpack_pair<C>(w, shape, strip + 2, 1, panel);
    panel.strip = strip;
    panel.ahead = group_share;  // with the first tile alone
    int64_t m = 0;
    for (; m + 8 <= x.m; m += 8, panel.ahead = 0) panel_tile<8>(shape, x, panel, m, out);
    for (; m + 4 <= x.m; m += 4) panel_tile<4>(shape, x, panel, m, out);
    for (; m < x.m; ++m) panel_tile<1>(shape, x, panel, m, out);
  }
}

template <class C>
void multiply(const PackedCodes& w, const QuantRows& x, Range strips, const LinearOut& out,
              uint8_t* scratch) {
  const CodeShape shape(w, offset_of(w));
  if (x.m >= kPanelFrom) {
    multiply_panels<C>(w, shape, x, strips, out, scratch);
    strips.first = strips.last - (strips.last - strips.first) % 4;
  }
  if (strips.first < strips.last) multiply_strips<C>(w, shape, x, strips, out);
}

}  // namespace

void linear_codes_avx512(const PackedCodes& w, const QuantRows& x, Range strips, const LinearOut& out,
                         uint8_t* scratch) {
  with_codes<Zmm>(w.layout, [&]<class C>() { multiply<C>(w, x, strips, out, scratch); });
}

}  // namespace penstock::exec::cpu
