// Integer codes times float32 activations: four strips are unpacked to float32 a few columns at a time, then
// multiplied with all activation rows while they are in the first cache.
#include "exec/cpu/kernels_avx2.h"
#include "exec/cpu/simd_avx2.h"

namespace penstock::exec::cpu {

namespace {

/// acc[m][32 rows] += panel [n][32] times x[m][n], columns in order.
template <int MT>
void multiply_panel(const float* panel, int64_t n, const float* x, int64_t stride, float* acc) {
  __m256 sum[MT][kExactStrips];
#pragma GCC unroll 4
  for (int m = 0; m < MT; ++m)
#pragma GCC unroll 4
    for (int s = 0; s < kExactStrips; ++s) sum[m][s] = _mm256_loadu_ps(acc + m * kExactRows + s * 8);
  for (int64_t c = 0; c < n; ++c) {
    __m256 value[MT];
#pragma GCC unroll 4
    for (int m = 0; m < MT; ++m) value[m] = _mm256_set1_ps(x[m * stride + c]);
#pragma GCC unroll 4
    for (int s = 0; s < kExactStrips; ++s) {
      const __m256 weight = _mm256_loadu_ps(panel + c * kExactRows + s * 8);
#pragma GCC unroll 4
      for (int m = 0; m < MT; ++m) sum[m][s] = _mm256_fmadd_ps(weight, value[m], sum[m][s]);
    }
  }
#pragma GCC unroll 4
  for (int m = 0; m < MT; ++m)
#pragma GCC unroll 4
    for (int s = 0; s < kExactStrips; ++s) _mm256_storeu_ps(acc + m * kExactRows + s * 8, sum[m][s]);
}

}  // namespace

void linear_exact_avx2(const PackedCodes& w, const FloatRows& x, Range strips, const LinearOut& out,
                       float* scratch) {
  if (w.layout == CodeLayout::kFp8) return linear_fp8_avx2(w, x, strips, out, scratch);
  const LayoutAvx2& layout = layout_avx2(w.layout);
  float* panel = scratch;
  float* acc = scratch + kExactRows * kExactColumns;
  for (int64_t first = strips.first; first < strips.last; first += kExactStrips) {
    const int64_t n_strips = strips.last - first < kExactStrips ? strips.last - first : kExactStrips;
    for (int64_t i = 0; i < x.m * kExactRows; i += 8) _mm256_storeu_ps(acc + i, _mm256_setzero_ps());
    for (int64_t column = 0; column < w.cols; column += kExactColumns) {
      const int64_t n = w.cols - column < kExactColumns ? w.cols - column : kExactColumns;
      for (int64_t s = 0; s < n_strips; ++s) layout.unpack_floats(w, first + s, column, n, panel + s * 8);
      int64_t m = 0;
      for (; m + 3 <= x.m; m += 3)
        multiply_panel<3>(panel, n, x.x + m * x.stride + column, x.stride, acc + m * kExactRows);
      if (x.m - m == 2)
        multiply_panel<2>(panel, n, x.x + m * x.stride + column, x.stride, acc + m * kExactRows);
      if (x.m - m == 1)
        multiply_panel<1>(panel, n, x.x + m * x.stride + column, x.stride, acc + m * kExactRows);
    }
    for (int64_t m = 0; m < x.m; ++m)
      for (int64_t s = 0; s < n_strips; ++s)
        store_rows(out, m, (first + s) * kStripRows, w.rows, _mm256_loadu_ps(acc + m * kExactRows + s * 8));
  }
}

}  // namespace penstock::exec::cpu
