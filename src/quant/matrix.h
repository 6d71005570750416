// One stored weight matrix [rows, cols]: views into the checkpoint, nothing is copied. Plain data, any
// thread. What the bytes mean is its Format; how an executor packs them is the executor's own.
#pragma once

#include <cstdint>
#include <vector>

#include "tensor/view.h"

namespace penstock::quant {

class Format;

struct Matrix {
  const Format* format = nullptr;
  int64_t rows = 0;
  int64_t cols = 0;
  int bits = 0;         // of one stored code
  int group_size = 0;   // columns that share a stored scale; 0 for dense
  tensor::View codes;   // dense: [rows, cols]; MLX: U32 [rows, cols * bits / 32]; GGUF: U8 [rows, row bytes]
  tensor::View scales;  // MLX: [rows, cols / group_size]; else empty
  tensor::View biases;  // MLX affine: as scales; else empty
  float global_scale = 1;          // nvfp4 only
  std::vector<int32_t> row_order;  // empty: identity; else row r of the matrix is stored row row_order[r]

  /// The stored row that holds row `row` of the matrix.
  int64_t stored_row(int64_t row) const {
    return row_order.empty() ? row : row_order[static_cast<size_t>(row)];
  }
};

}  // namespace penstock::quant
