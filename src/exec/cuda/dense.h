// The operands of the prompts' multiplication: matrices and activations in float16 tiles of 64 columns, in
// the order in which a wgmma instruction reads shared memory, so that a tile is one bulk copy. Columns are
// permuted within a tile, alike on both sides. Plain data, host and device.
#pragma once

#include <cuda_runtime.h>

#include "exec/cuda/tile_shape.h"

namespace penstock::exec::cuda {

inline constexpr int32_t kDenseCols = 64;
inline constexpr int32_t kDenseRows = 128;    // rows of a matrix that one block of threads multiplies
inline constexpr int32_t kDenseTokens = 256;  // activation rows, likewise, where there are many
inline constexpr int32_t kFewTokens = 64;     // likewise, where there are few

/// Tiles of 64 rows: [row blocks of 64][column blocks][64 rows][64 cols], 8 KB each.
inline constexpr int32_t kDenseTileRows = 64;
inline constexpr int32_t kDenseTileBytes = kDenseTileRows * kDenseCols * 2;

constexpr int32_t dense_col_blocks(int32_t cols) {
  return (cols + kDenseCols - 1) / kDenseCols;
}
constexpr int32_t round_up(int32_t n, int32_t step) {
  return (n + step - 1) / step * step;
}
constexpr size_t dense_bytes(int32_t rows, int32_t cols) {
  return static_cast<size_t>(round_up(rows, kDenseTokens) / kDenseTileRows) *
         static_cast<size_t>(dense_col_blocks(cols)) * kDenseTileBytes;
}

/// Activations of a prompt pass: x = value * 2^-exponent of the row.
struct DenseActivations {
  uint8_t* data = nullptr;
  int32_t* exponents = nullptr;  // [rows], kNoExponent for a row of zeros
  int32_t cols = 0;
};

/// The matrix in float16 without its factor, to `out` [dense_bytes(rows, cols)].
void expand_matrix(const TileMatrix& matrix, uint8_t* out, cudaStream_t stream);

/// out [tokens, width]: matrix times activations. `width` is at least the matrix's rows, in whole tiles
/// of 16.
struct DenseProduct {
  const uint8_t* matrix = nullptr;
  DenseActivations x;
  float* out = nullptr;
  int32_t rows = 0, tokens = 0, width = 0;
  float factor = 1;
};

void multiply_dense(const DenseProduct& product, cudaStream_t stream);

}  // namespace penstock::exec::cuda
