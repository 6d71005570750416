// Dense weights times float32 activations, read where they lie: lanes along the columns.
#include "exec/cpu/kernels_neon.h"
#include "exec/cpu/simd_neon.h"

namespace penstock::exec::cpu {

namespace {

template <DenseType kType>
constexpr int64_t kBytes = kType == DenseType::kF32 ? 4 : 2;

template <DenseType kType>
inline __attribute__((always_inline)) Lanes load_weights(const uint8_t* row, int64_t c) {
  if constexpr (kType == DenseType::kF32) {
    return load(reinterpret_cast<const float*>(row) + c);
  } else {
    const uint16x8_t half = vld1q_u16(reinterpret_cast<const uint16_t*>(row) + c);
    return kType == DenseType::kF16 ? widen_f16(half) : widen_bf16(half);
  }
}

/// The last columns of a row of weights, zeros after them.
template <DenseType kType>
Lanes load_weights_part(const uint8_t* row, int64_t c, int64_t n) {
  alignas(16) uint8_t padded[32] = {};
  __builtin_memcpy(padded, row + kBytes<kType> * c, static_cast<size_t>(kBytes<kType> * n));
  return load_weights<kType>(padded, 0);
}

/// R rows of weights times MT rows of x. A fixed order: lane i of the two sums takes columns i and i + 8 of
/// each 16.
template <DenseType kType, int R, int MT>
void dense_tile(const uint8_t* const (&row)[R], const float* const (&x)[MT], int64_t cols,
                float (&out)[R][MT]) {
  Lanes sum[R][MT][2];
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
    for (int m = 0; m < MT; ++m) sum[r][m][0] = sum[r][m][1] = splat(0);
  int64_t c = 0;
  for (; c + 16 <= cols; c += 16) {
#pragma GCC unroll 2
    for (int h = 0; h < 2; ++h) {
      Lanes value[MT];
#pragma GCC unroll 4
      for (int m = 0; m < MT; ++m) value[m] = load(x[m] + c + 8 * h);
#pragma GCC unroll 4
      for (int r = 0; r < R; ++r) {
        const Lanes weight = load_weights<kType>(row[r], c + 8 * h);
#pragma GCC unroll 4
        for (int m = 0; m < MT; ++m) sum[r][m][h] = multiply_add(weight, value[m], sum[r][m][h]);
      }
    }
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) __builtin_prefetch(row[r] + kBytes<kType> * c + 1024);
  }
#pragma GCC unroll 2
  for (int h = 0; h < 2; ++h) {
    const int64_t n = cols - c < 8 ? cols - c : 8;
    if (n <= 0) break;
    for (int r = 0; r < R; ++r)
      for (int m = 0; m < MT; ++m)
        sum[r][m][h] =
            multiply_add(load_weights_part<kType>(row[r], c, n), load_part(x[m] + c, n), sum[r][m][h]);
    c += n;
  }
  for (int r = 0; r < R; ++r)
    for (int m = 0; m < MT; ++m) out[r][m] = fold(add(sum[r][m][0], sum[r][m][1]));
}

const uint8_t* row_of(const DenseMatrix& w, int64_t row) {
  const int64_t row_bytes = w.cols * (w.type == DenseType::kF32 ? 4 : 2);
  return w.data + (w.row_order != nullptr ? w.row_order[row] : row) * row_bytes;
}

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
  for (int r = 0; r < R; ++r) at[r] = row_of(w, rows[r]);
  for (int i = 0; i < MT; ++i) from[i] = x.x + (m + i) * x.stride;
  dense_tile<kType, R, MT>(at, from, w.cols, result);
  for (int r = 0; r < R; ++r)
    for (int i = 0; i < MT; ++i) store_one(out, m + i, rows[r], result[r][i]);
}

template <DenseType kType, int R>
void run_rows(const DenseMatrix& w, const FloatRows& x, const int64_t (&rows)[R], const LinearOut& out) {
  constexpr int kTile = 4 / R;  // sixteen running sums hide the latency of an fma
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

}  // namespace

void linear_dense_neon(const DenseMatrix& w, const FloatRows& x, Range rows, const LinearOut& out) {
  if (w.type == DenseType::kF32) return run_all<DenseType::kF32>(w, x, rows, out);
  if (w.type == DenseType::kF16) return run_all<DenseType::kF16>(w, x, rows, out);
  run_all<DenseType::kBF16>(w, x, rows, out);
}

}  // namespace penstock::exec::cpu
