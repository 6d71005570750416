// Places within dense tiles. Device code.
#pragma once

#include "exec/cuda/dense.h"
#include "exec/cuda/device_code.h"

namespace penstock::exec::cuda {

/// Byte of 16-byte piece `piece` of row `row` of a tile: pieces are swapped by the row's number.
__device__ inline int32_t dense_piece(int32_t row, int32_t piece) {
  return row * 128 + (piece ^ (row % 8)) * 16;
}

__device__ inline uint8_t* dense_tile(uint8_t* data, int32_t col_blocks, int32_t row, int32_t col_block) {
  return data + (static_cast<size_t>(row / kDenseTileRows) * col_blocks + col_block) * kDenseTileBytes;
}

/// Columns 2 lane and 2 lane + 1 of a tile.
__device__ inline void write_dense(uint8_t* data, int32_t col_blocks, int32_t row, int32_t col_block,
                                   half2 value) {
  const int32_t lane = threadIdx.x % 32;
  uint8_t* tile = dense_tile(data, col_blocks, row, col_block);
  *reinterpret_cast<half2*>(tile + dense_piece(row % kDenseTileRows, lane / 4) + lane % 4 * 4) = value;
}

/// 2^exponent, for one of activations: 0 for a row of zeros.
__device__ inline float power_of(int32_t exponent) {
  return exponent == kNoExponent ? 0.0f : __int_as_float((exponent + 127) << 23);
}

}  // namespace penstock::exec::cuda
