// Integer codes times float32 activations: four strips are unpacked to float32 a few columns at a time, then
// multiplied with all activation rows while they are in the first cache.
#include "exec/cpu/codes_neon.h"
#include "exec/cpu/kernels_neon.h"

namespace penstock::exec::cpu {

namespace {

constexpr int64_t kPanelRows = kExactStrips * kStripRows;
constexpr int kPanelVectors = kPanelRows / 4;

/// Four rows of one column: the byte `shift` bits up in each word.
template <int kShift>
inline __attribute__((always_inline)) void put(uint32x4_t words, const PackedCodes& w, float32x4_t scale,
                                               float32x4_t bias, float* to) {
  uint32x4_t code = words;
  if constexpr (kShift != 0) code = vshrq_n_u32(words, kShift);
  const int32x4_t plain = vreinterpretq_s32_u32(vandq_u32(code, vdupq_n_u32(255)));
  if (w.has_bias())
    vst1q_f32(to, vfmaq_f32(bias, vcvtq_f32_s32(plain), scale));
  else
    vst1q_f32(to, vmulq_f32(vcvtq_f32_s32(vsubq_s32(plain, vdupq_n_s32(w.zero))), scale));
}

inline void put_columns(uint8x16_t code, const PackedCodes& w, float32x4_t scale, float32x4_t bias,
                        float* to) {
  const uint32x4_t words = vreinterpretq_u32_u8(code);
  put<0>(words, w, scale, bias, to);
  put<8>(words, w, scale, bias, to + kPanelRows);
  put<16>(words, w, scale, bias, to + 2 * kPanelRows);
  put<24>(words, w, scale, bias, to + 3 * kPanelRows);
}

template <class C, int kStep = 0>
inline void unpack_steps(const uint8_t* codes, const PackedCodes& w, const GroupScales (&scales)[2],
                         float* to) {
  if constexpr (kStep < 8) {
    const NeonPair::Int code = C::plain(C(codes).template step<kStep>());
    const GroupScales& group = scales[kStep / 4];
    put_columns(code.lo, w, group.scale.lo, group.bias.lo, to + kStep * 4 * kPanelRows);
    put_columns(code.hi, w, group.scale.hi, group.bias.hi, to + kStep * 4 * kPanelRows + 4);
    unpack_steps<C, kStep + 1>(codes, w, scales, to);
  }
}

/// Columns [first, first + n), whole chunks, of one strip to to[column * 32 + 0..7].
template <class C>
void unpack_floats(const PackedCodes& w, int64_t strip, int64_t first, int64_t n, float* to) {
  const ScaleReader reader(w);
  for (int64_t c = first; c < first + n; c += kChunk, to += kChunk * kPanelRows) {
    const uint8_t* block = w.blocks + strip * w.strip_bytes() + c / w.block_cols() * w.block_bytes();
    const int64_t column = c % w.block_cols();
    const GroupScales scales[2] = {reader.read(block, column / w.group),
                                   reader.read(block, (column + kChunk / 2) / w.group)};
    unpack_steps<C>(block + column / kChunk * C::kBytes, w, scales, to);
  }
}

/// The same of E4M3 numbers.
void unpack_numbers(const PackedCodes& w, int64_t strip, int64_t first, int64_t n, float* to) {
  constexpr int64_t kNumberBytes = kChunk * kStripRows;
  const uint8_t* chunk = w.blocks + strip * w.strip_bytes() + first / kChunk * w.block_bytes();
  const uint16x8_t mask = vdupq_n_u16(0xbf80);
  const auto halves = [&](uint16x8_t high) {  // a sign, four bits of exponent, three of mantissa, as a half
    return vandq_u16(vreinterpretq_u16_s16(vshrq_n_s16(vreinterpretq_s16_u16(high), 1)), mask);
  };
  for (int64_t c = 0; c < n; c += kChunk, chunk += w.block_bytes()) {
    const Lanes scale = multiply(splat(256), NeonPair::e8m0(chunk + kNumberBytes));
    for (int64_t i = 0; i < kChunk; i += 2, to += 2 * kPanelRows) {
      const uint16x8_t two = vreinterpretq_u16_u8(vld1q_u8(chunk + i * kStripRows));
      store(to, multiply(scale, widen_f16(halves(vshlq_n_u16(two, 8)))));
      store(to + kPanelRows, multiply(scale, widen_f16(halves(two))));
    }
  }
}

void unpack_strip(const PackedCodes& w, int64_t strip, int64_t first, int64_t n, float* to) {
  if (w.layout == CodeLayout::kFp8) return unpack_numbers(w, strip, first, n, to);
  with_codes<NeonPair>(w.layout, [&]<class C>() { unpack_floats<C>(w, strip, first, n, to); });
}

/// acc[m][32 rows] += panel [n][32] times x[m][n], columns in order.
template <int MT>
void multiply_panel(const float* panel, int64_t n, const float* x, int64_t stride, float* acc) {
  float32x4_t sum[MT][kPanelVectors];
#pragma GCC unroll 4
  for (int m = 0; m < MT; ++m)
#pragma GCC unroll 8
    for (int v = 0; v < kPanelVectors; ++v) sum[m][v] = vld1q_f32(acc + m * kPanelRows + v * 4);
  for (int64_t c = 0; c < n; ++c) {
#pragma GCC unroll 8
    for (int v = 0; v < kPanelVectors; ++v) {
      const float32x4_t weight = vld1q_f32(panel + c * kPanelRows + v * 4);
#pragma GCC unroll 4
      for (int m = 0; m < MT; ++m) sum[m][v] = vfmaq_n_f32(sum[m][v], weight, x[m * stride + c]);
    }
  }
#pragma GCC unroll 4
  for (int m = 0; m < MT; ++m)
#pragma GCC unroll 8
    for (int v = 0; v < kPanelVectors; ++v) vst1q_f32(acc + m * kPanelRows + v * 4, sum[m][v]);
}

}  // namespace

void linear_exact_neon(const PackedCodes& w, const FloatRows& x, Range strips, const LinearOut& out,
                       float* scratch) {
  float* panel = scratch;
  float* acc = scratch + kPanelRows * kExactColumns;
  for (int64_t first = strips.first; first < strips.last; first += kExactStrips) {
    const int64_t n_strips = strips.last - first < kExactStrips ? strips.last - first : kExactStrips;
    for (int64_t i = 0; i < x.m * kPanelRows; i += 8) store(acc + i, splat(0));
    for (int64_t column = 0; column < w.cols; column += kExactColumns) {
      const int64_t n = w.cols - column < kExactColumns ? w.cols - column : kExactColumns;
      for (int64_t s = 0; s < n_strips; ++s) unpack_strip(w, first + s, column, n, panel + s * 8);
      int64_t m = 0;
      for (; m + 3 <= x.m; m += 3)
        multiply_panel<3>(panel, n, x.x + m * x.stride + column, x.stride, acc + m * kPanelRows);
      if (x.m - m == 2)
        multiply_panel<2>(panel, n, x.x + m * x.stride + column, x.stride, acc + m * kPanelRows);
      if (x.m - m == 1)
        multiply_panel<1>(panel, n, x.x + m * x.stride + column, x.stride, acc + m * kPanelRows);
    }
    for (int64_t m = 0; m < x.m; ++m)
      for (int64_t s = 0; s < n_strips; ++s)
        store_rows(out, m, (first + s) * kStripRows, w.rows, load(acc + m * kPanelRows + s * 8));
  }
}

}  // namespace penstock::exec::cpu
