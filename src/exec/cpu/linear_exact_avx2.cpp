// Integer codes times float32 activations: four strips are unpacked to float32 a few columns at a time, then
// multiplied with all activation rows while they are in the first cache.
#include "exec/cpu/kernels_avx2.h"
#include "exec/cpu/simd_avx2.h"

namespace penstock::exec::cpu {

namespace {

constexpr int64_t kPanelRows = kExactStrips * kStripRows;

/// Columns [0, group) of one block to panel[column * 32 + 0..7].
void unpack_block(const PackedCodes& w, const uint8_t* block, float* panel) {
  const __m256 scale = load_scales(w.scale_type, block + w.code_bytes());
  const __m256 bias = load_scales(w.scale_type, block + w.code_bytes() + kStripRows * w.scale_bytes());
  const bool four = w.width == CodeWidth::kFour;
  const __m256i mask = _mm256_set1_epi32(four ? 15 : 255);
  const __m256i flip = _mm256_set1_epi32(w.is_signed() ? static_cast<int32_t>(0x80808080) : 0);
  const auto put = [&](__m256i code, int64_t column) {
    const __m256 value = _mm256_cvtepi32_ps(_mm256_and_si256(code, mask));
    _mm256_storeu_ps(panel + column * kPanelRows, _mm256_fmadd_ps(value, scale, bias));
  };
  const int columns = four ? 8 : 4;
  for (int64_t c = 0; c < w.group; c += columns, block += 32) {
    const __m256i words = _mm256_xor_si256(load_bytes(block), flip);
    put(words, c);
    put(_mm256_srli_epi32(words, 8), c + 1);
    put(_mm256_srli_epi32(words, 16), c + 2);
    put(_mm256_srli_epi32(words, 24), c + 3);
    if (!four) continue;
    put(_mm256_srli_epi32(words, 4), c + 4);
    put(_mm256_srli_epi32(words, 12), c + 5);
    put(_mm256_srli_epi32(words, 20), c + 6);
    put(_mm256_srli_epi32(words, 28), c + 7);
  }
}

/// acc[m][32 rows] += panel [n][32] times x[m][n], columns in order.
template <int MT>
void multiply_panel(const float* panel, int64_t n, const float* x, int64_t stride, float* acc) {
  __m256 sum[MT][kExactStrips];
#pragma GCC unroll 4
  for (int m = 0; m < MT; ++m)
#pragma GCC unroll 4
    for (int s = 0; s < kExactStrips; ++s) sum[m][s] = _mm256_loadu_ps(acc + m * kPanelRows + s * 8);
  for (int64_t c = 0; c < n; ++c) {
    __m256 value[MT];
#pragma GCC unroll 4
    for (int m = 0; m < MT; ++m) value[m] = _mm256_set1_ps(x[m * stride + c]);
#pragma GCC unroll 4
    for (int s = 0; s < kExactStrips; ++s) {
      const __m256 weight = _mm256_loadu_ps(panel + c * kPanelRows + s * 8);
#pragma GCC unroll 4
      for (int m = 0; m < MT; ++m) sum[m][s] = _mm256_fmadd_ps(weight, value[m], sum[m][s]);
    }
  }
#pragma GCC unroll 4
  for (int m = 0; m < MT; ++m)
#pragma GCC unroll 4
    for (int s = 0; s < kExactStrips; ++s) _mm256_storeu_ps(acc + m * kPanelRows + s * 8, sum[m][s]);
}

}  // namespace

void linear_exact_avx2(const PackedCodes& w, const FloatRows& x, Range strips, const LinearOut& out,
                       float* scratch) {
  float* panel = scratch;
  float* acc = scratch + kPanelRows * kExactColumns;
  for (int64_t first = strips.first; first < strips.last; first += kExactStrips) {
    const int64_t n_strips = strips.last - first < kExactStrips ? strips.last - first : kExactStrips;
    for (int64_t i = 0; i < x.m * kPanelRows; i += 8) _mm256_storeu_ps(acc + i, _mm256_setzero_ps());
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
        store_rows(out, m, (first + s) * kStripRows, w.rows, _mm256_loadu_ps(acc + m * kPanelRows + s * 8));
  }
}

}  // namespace penstock::exec::cpu
