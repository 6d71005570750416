// Integer codes times float32 activations: four strips are unpacked to float32 a few columns at a time, then
// multiplied with all activation rows while they are in the first cache.
#include "exec/cpu/kernels_neon.h"
#include "exec/cpu/simd_neon.h"

namespace penstock::exec::cpu {

namespace {

constexpr int64_t kPanelRows = kExactStrips * kStripRows;
constexpr int kPanelVectors = kPanelRows / 4;

/// Four rows of four columns: code `shift` bits up in each word to panel[0..3].
template <int kShift>
inline __attribute__((always_inline)) void put(uint32x4_t words, uint32x4_t mask, float32x4_t scale,
                                               float32x4_t bias, float* to) {
  uint32x4_t code = words;
  if constexpr (kShift != 0) code = vshrq_n_u32(words, kShift);
  vst1q_f32(to, vfmaq_f32(bias, vcvtq_f32_u32(vandq_u32(code, mask)), scale));
}

/// Half of a strip: rows [0, 4) of the columns [0, group) to panel[column * 32 + 0..3].
void unpack_rows(const PackedCodes& w, const uint8_t* codes, float32x4_t scale, float32x4_t bias,
                 float* panel) {
  const bool four = w.width == CodeWidth::kFour;
  const uint32x4_t mask = vdupq_n_u32(four ? 15 : 255);
  const uint32x4_t flip = vdupq_n_u32(w.is_signed() ? 0x80808080 : 0);
  const int64_t columns = four ? 8 : 4;
  for (int64_t c = 0; c < w.group; c += columns, codes += 32, panel += columns * kPanelRows) {
    const uint32x4_t words = veorq_u32(vreinterpretq_u32_u8(vld1q_u8(codes)), flip);
    put<0>(words, mask, scale, bias, panel);
    put<8>(words, mask, scale, bias, panel + kPanelRows);
    put<16>(words, mask, scale, bias, panel + 2 * kPanelRows);
    put<24>(words, mask, scale, bias, panel + 3 * kPanelRows);
    if (!four) continue;
    put<4>(words, mask, scale, bias, panel + 4 * kPanelRows);
    put<12>(words, mask, scale, bias, panel + 5 * kPanelRows);
    put<20>(words, mask, scale, bias, panel + 6 * kPanelRows);
    put<28>(words, mask, scale, bias, panel + 7 * kPanelRows);
  }
}

/// Columns [0, group) of one block to panel[column * 32 + 0..7].
void unpack_block(const PackedCodes& w, const uint8_t* block, float* panel) {
  const Lanes scale = load_scales(w.scale_type, block + w.code_bytes());
  const Lanes bias = load_scales(w.scale_type, block + w.code_bytes() + kStripRows * w.scale_bytes());
  unpack_rows(w, block, scale.lo, bias.lo, panel);
  unpack_rows(w, block + 16, scale.hi, bias.hi, panel + 4);
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
      for (int64_t s = 0; s < n_strips; ++s)
        for (int64_t c = 0; c < n; c += w.group)
          unpack_block(w, w.blocks + (first + s) * w.strip_bytes() + (column + c) / w.group * w.block_bytes(),
                       panel + c * kPanelRows + s * 8);
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
