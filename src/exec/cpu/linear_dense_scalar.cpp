// Dense weights times float32 activations, plain C++.
#include <cmath>
#include <cstring>

#include "exec/cpu/kernels_scalar.h"

namespace penstock::exec::cpu {

namespace {

float dense_at(const uint8_t* row, DenseType type, int64_t c) {
  if (type == DenseType::kF32) {
    float value;
    std::memcpy(&value, row + c * 4, sizeof(value));
    return value;
  }
  uint16_t bits;
  std::memcpy(&bits, row + c * 2, sizeof(bits));
  return type == DenseType::kF16 ? half_to_float(bits) : tensor::bf16_to_f32(bits);
}

}  // namespace

void linear_dense_scalar(const DenseMatrix& w, const FloatRows& x, Range rows, const LinearOut& out) {
  const int64_t row_bytes = w.cols * (w.type == DenseType::kF32 ? 4 : 2);
  for (int64_t r = rows.first; r < rows.last; ++r) {
    const uint8_t* row = w.data + (w.row_order != nullptr ? w.row_order[r] : r) * row_bytes;
    for (int64_t m = 0; m < x.m; ++m) {
      float lanes[16] = {};
      for (int64_t c = 0; c < w.cols; ++c)
        lanes[c % 16] = std::fma(dense_at(row, w.type, c), x.x[m * x.stride + c], lanes[c % 16]);
      for (int i = 0; i < 8; ++i) lanes[i] += lanes[i + 8];
      store_output(out, m, r, fold8(lanes));
    }
  }
}

}  // namespace penstock::exec::cpu
