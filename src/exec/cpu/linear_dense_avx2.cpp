// Dense weights times float32 activations, read where they lie: lanes along the columns.
#include "exec/cpu/kernels_avx2.h"
#include "exec/cpu/simd_avx2.h"

namespace penstock::exec::cpu {

namespace {

template <DenseType kType>
inline __attribute__((always_inline)) __m256 load_weights(const uint8_t* row, int64_t c) {
  if constexpr (kType == DenseType::kF32) {
    return _mm256_loadu_ps(reinterpret_cast<const float*>(row) + c);
  } else {
    const __m128i half = _mm_loadu_si128(reinterpret_cast<const __m128i*>(row + 2 * c));
    if constexpr (kType == DenseType::kF16) return _mm256_cvtph_ps(half);
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(half), 16));
  }
}

/// The last columns of a row of weights, zeros after them.
template <DenseType kType>
__m256 load_weights_part(const uint8_t* row, int64_t c, int64_t n) {
  alignas(32) uint8_t padded[32] = {};
  constexpr int64_t kBytes = kType == DenseType::kF32 ? 4 : 2;
  if (n > 0) __builtin_memcpy(padded, row + kBytes * c, static_cast<size_t>(kBytes * (n < 8 ? n : 8)));
  return load_weights<kType>(padded, 0);
}

/// R rows of weights times MT rows of x. A fixed order: lane i of the two sums takes columns i and i + 8 of
/// each 16.
template <DenseType kType, int R, int MT>
void dense_tile(const uint8_t* const (&row)[R], const float* const (&x)[MT], int64_t cols,
                float (&out)[R][MT]) {
  __m256 sum[R][MT][2];
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
    for (int m = 0; m < MT; ++m) sum[r][m][0] = sum[r][m][1] = _mm256_setzero_ps();
  int64_t c = 0;
  for (; c + 16 <= cols; c += 16) {
#pragma GCC unroll 2
    for (int h = 0; h < 2; ++h) {
      __m256 value[MT];
#pragma GCC unroll 4
      for (int m = 0; m < MT; ++m) value[m] = _mm256_loadu_ps(x[m] + c + 8 * h);
#pragma GCC unroll 4
      for (int r = 0; r < R; ++r) {
        const __m256 weight = load_weights<kType>(row[r], c + 8 * h);
#pragma GCC unroll 4
        for (int m = 0; m < MT; ++m) sum[r][m][h] = _mm256_fmadd_ps(weight, value[m], sum[r][m][h]);
      }
    }
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r)
      _mm_prefetch(reinterpret_cast<const char*>(row[r] + (kType == DenseType::kF32 ? 4 : 2) * c + 1024),
                   _MM_HINT_T0);
  }
  for (int h = 0; h < 2 && c < cols; ++h, c += 8)
    for (int r = 0; r < R; ++r)
      for (int m = 0; m < MT; ++m)
        sum[r][m][h] = _mm256_fmadd_ps(load_weights_part<kType>(row[r], c, cols - c),
                                       _mm256_maskload_ps(x[m] + c, first_lanes(cols - c)), sum[r][m][h]);
  for (int r = 0; r < R; ++r)
    for (int m = 0; m < MT; ++m) out[r][m] = fold(_mm256_add_ps(sum[r][m][0], sum[r][m][1]));
}

struct Weights {
  const DenseMatrix& w;
  const uint8_t* at(int64_t row) const {
    const int64_t row_bytes = w.cols * (w.type == DenseType::kF32 ? 4 : 2);
    return w.data + (w.row_order != nullptr ? w.row_order[row] : row) * row_bytes;
  }
};

void store_one(const LinearOut& out, int64_t m, int64_t row, float value) {
  if (out.bias != nullptr) value += out.bias[row];
  float& at = out.out[m * out.stride + row];
  at = out.add ? at + value : value;
}

template <DenseType kType, int R, int MT>
void run_tile(const DenseMatrix& w, const FloatRows& x, const int64_t (&rows)[R], int64_t m,
              const LinearOut& out) {
  const uint8_t* at[R];
  const float* from[MT];
  float result[R][MT];
  for (int r = 0; r < R; ++r) at[r] = Weights{w}.at(rows[r]);
  for (int i = 0; i < MT; ++i) from[i] = x.x + (m + i) * x.stride;
  dense_tile<kType, R, MT>(at, from, w.cols, result);
  for (int r = 0; r < R; ++r)
    for (int i = 0; i < MT; ++i) store_one(out, m + i, rows[r], result[r][i]);
}

template <DenseType kType, int R>
void run_rows(const DenseMatrix& w, const FloatRows& x, const int64_t (&rows)[R], const LinearOut& out) {
  // Two rows of weights and three of activations fill the registers, and need fewer loads than multiply-adds.
  constexpr int kTile = R == 2 ? 3 : 4 / R;
  int64_t m = 0;
  for (; m + kTile <= x.m; m += kTile) run_tile<kType, R, kTile>(w, x, rows, m, out);
  for (; m < x.m; ++m) run_tile<kType, R, 1>(w, x, rows, m, out);
}

/// Four far rows for one activation row, two for more.
template <DenseType kType>
void run_all(const DenseMatrix& w, const FloatRows& x, Range range, const LinearOut& out) {
  const int64_t ways = x.m == 1 ? 4 : 2, n = (range.last - range.first) / ways;
  for (int64_t i = range.first; i < range.first + n; ++i) {
    if (ways == 4)
      run_rows<kType, 4>(w, x, {i, i + n, i + 2 * n, i + 3 * n}, out);
    else
      run_rows<kType, 2>(w, x, {i, i + n}, out);
  }
  for (int64_t i = range.first + ways * n; i < range.last; ++i) run_rows<kType, 1>(w, x, {i}, out);
}

/// Of activations, and of weights, that stay in the second cache together.
constexpr int64_t kBlockBytes = 1 << 17;

/// Few activation rows meet all weights in one pass. Of more the weights are taken in blocks that meet blocks
/// of rows.
template <DenseType kType>
void run_blocks(const DenseMatrix& w, const FloatRows& x, Range rows, const LinearOut& out) {
  const int64_t fit = kBlockBytes / (4 * w.cols) / 6 * 6, step = fit > 6 ? fit : 6;
  if (x.m <= step) return run_all<kType>(w, x, rows, out);
  const int64_t row_bytes = w.cols * (kType == DenseType::kF32 ? 4 : 2);
  const int64_t pairs = kBlockBytes / (2 * row_bytes), chunk = pairs > 1 ? 2 * pairs : 2;
  for (int64_t row = rows.first; row < rows.last; row += chunk) {
    const Range some = {row, row + chunk < rows.last ? row + chunk : rows.last};
    for (int64_t m = 0; m < x.m; m += step) {
      const int64_t n = x.m - m < step ? x.m - m : step;
      const FloatRows block = {x.x + m * x.stride, x.stride, static_cast<int32_t>(n)};
      run_all<kType>(w, block, some, {out.out + m * out.stride, out.stride, out.bias, out.add});
    }
  }
}

}  // namespace

void linear_dense_avx2(const DenseMatrix& w, const FloatRows& x, Range rows, const LinearOut& out) {
  if (w.type == DenseType::kF32) return run_blocks<DenseType::kF32>(w, x, rows, out);
  if (w.type == DenseType::kF16) return run_blocks<DenseType::kF16>(w, x, rows, out);
  run_blocks<DenseType::kBF16>(w, x, rows, out);
}

}  // namespace penstock::exec::cpu
