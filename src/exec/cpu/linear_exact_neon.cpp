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

/// Some strips, kExactStrips at most, times all rows of x.
void take_codes(const PackedCodes& w, const FloatRows& x, Range strips, float* panel, float* acc) {
  for (int64_t column = 0; column < w.cols; column += kExactColumns) {
    const int64_t n = w.cols - column < kExactColumns ? w.cols - column : kExactColumns;
    with_codes<NeonPair>(w.layout, [&]<class C>() {
      for (int64_t s = strips.first; s < strips.last; ++s)
        unpack_floats<C>(w, s, column, n, panel + (s - strips.first) * kStripRows);
    });
    const float* from = x.x + column;
    int64_t m = 0;
    for (; m + 3 <= x.m; m += 3)
      multiply_panel<3>(panel, n, from + m * x.stride, x.stride, acc + m * kPanelRows);
    if (x.m - m == 2) multiply_panel<2>(panel, n, from + m * x.stride, x.stride, acc + m * kPanelRows);
    if (x.m - m == 1) multiply_panel<1>(panel, n, from + m * x.stride, x.stride, acc + m * kPanelRows);
  }
}

constexpr int64_t kNumberBytes = kChunk * kStripRows;

/// One column of eight rows: the byte `shift` bits up in each word, a sign, four bits of exponent, three of
/// mantissa, as a half that is 2^8 times too small.
inline Lanes read_column(uint32x4_t lo, uint32x4_t hi, int32_t shift) {
  const int32x4_t down = vdupq_n_s32(-shift);
  const uint16x8_t words = vcombine_u16(vmovn_u32(vshlq_u32(lo, down)), vmovn_u32(vshlq_u32(hi, down)));
  const int16x8_t high = vreinterpretq_s16_u16(vshlq_n_u16(words, 8));
  return multiply(splat(256),
                  widen_f16(vandq_u16(vreinterpretq_u16_s16(vshrq_n_s16(high, 1)), vdupq_n_u16(0xbf80))));
}

/// A group of E4M3 numbers of one strip to to[column * 32 + 0..7].
void unpack_numbers(const uint8_t* group, float* to) {
  for (int64_t v = 0; v < kChunk / 4; ++v, to += 4 * kPanelRows) {
    const uint32x4_t lo = vreinterpretq_u32_u8(vld1q_u8(group + 32 * v));
    const uint32x4_t hi = vreinterpretq_u32_u8(vld1q_u8(group + 32 * v + 16));
    for (int i = 0; i < 4; ++i) store(to + i * kPanelRows, read_column(lo, hi, 8 * i));
  }
}

/// acc[m][32 rows] = fma(sum of the group, scales, acc).
template <int MT>
void multiply_numbers(const float* panel, const float* scales, const float* x, int64_t stride, float* acc) {
  float sum[MT * kPanelRows] = {};
  multiply_panel<MT>(panel, kChunk, x, stride, sum);
  for (int64_t i = 0; i < MT * kPanelRows; i += 8)
    store(acc + i, multiply_add(load(sum + i), load(scales + i % kPanelRows), load(acc + i)));
}

/// Some strips, kExactStrips at most, times all rows of x.
void take_numbers(const PackedCodes& w, const FloatRows& x, Range strips, float* panel, float* acc) {
  float scales[kPanelRows] = {};
  for (int64_t g = 0; g < w.groups(); ++g) {
    for (int64_t s = 0; s < strips.last - strips.first; ++s) {
      const uint8_t* group = w.blocks + (strips.first + s) * w.strip_bytes() + g * w.block_bytes();
      unpack_numbers(group, panel + s * kStripRows);
      store(scales + s * kStripRows, NeonPair::e8m0(group + kNumberBytes));
    }
    const float* from = x.x + g * kChunk;
    int64_t m = 0;
    for (; m + 3 <= x.m; m += 3)
      multiply_numbers<3>(panel, scales, from + m * x.stride, x.stride, acc + m * kPanelRows);
    for (; m < x.m; ++m)
      multiply_numbers<1>(panel, scales, from + m * x.stride, x.stride, acc + m * kPanelRows);
  }
}

}  // namespace

void linear_exact_neon(const PackedCodes& w, const FloatRows& x, Range strips, const LinearOut& out,
                       float* scratch) {
  float* panel = scratch;
  float* acc = scratch + kPanelRows * kExactColumns;
  for (int64_t first = strips.first; first < strips.last; first += kExactStrips) {
    const int64_t n_strips = strips.last - first < kExactStrips ? strips.last - first : kExactStrips;
    for (int64_t i = 0; i < x.m * kPanelRows; i += 8) store(acc + i, splat(0));
    if (w.layout == CodeLayout::kFp8)
      take_numbers(w, x, {first, first + n_strips}, panel, acc);
    else
      take_codes(w, x, {first, first + n_strips}, panel, acc);
    for (int64_t m = 0; m < x.m; ++m)
      for (int64_t s = 0; s < n_strips; ++s)
        store_rows(out, m, (first + s) * kStripRows, w.rows, load(acc + m * kPanelRows + s * 8));
  }
}

}  // namespace penstock::exec::cpu
