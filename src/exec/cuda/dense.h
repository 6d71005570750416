// The prompts' multiplication and its activations: float16 tiles of 64 columns, in the order in which a wgmma
// instruction reads shared memory, so that a tile is one bulk copy. Plain data, host and device.
#pragma once

#include <cuda_runtime.h>

#include "exec/cuda/tile_shape.h"
#include "ops/operation.h"

namespace penstock::exec::cuda {

inline constexpr int32_t kDenseCols = 64;
inline constexpr int32_t kDenseRows = 128;    // rows of a matrix that one block of threads multiplies
inline constexpr int32_t kDenseTokens = 256;  // activation rows, likewise, at most
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

/// Where the products of a matrix of 8 gate and 8 up rows in turn become activation(gate) * up. The exponents
/// are given.
struct DenseGate {
  DenseActivations out;  // no data: nothing of this
  ops::Activation activation = ops::Activation::kSilu;
};

/// The matrix, rounded to float16, times activations, to `out` [tokens, padded rows] or through the gate.
struct DenseProduct {
  TileMatrix matrix;
  DenseActivations x;
  float* out = nullptr;
  int32_t tokens = 0;
  int32_t block_tokens = 0;  // 64, 128 or 256 of a block; 0: as fits
  DenseGate gate;
};

void multiply_dense(const DenseProduct& product, cudaStream_t stream);

}  // namespace penstock::exec::cuda
