// The device side of packing: rows as the formats read them become tiles.
#pragma once

#include <cuda_runtime.h>

#include "exec/cuda/tile_shape.h"

namespace penstock::exec::cuda {

/// Rows [first_row, first_row + n_rows) of a matrix, whole tiles: codes [n_rows, cols] bytes and {scale,
/// bias} [n_rows, cols / group], or float16 values [n_rows, cols].
struct StagedRows {
  const uint8_t* codes = nullptr;
  const float2* scales = nullptr;
  const void* values = nullptr;
  int32_t first_row = 0, n_rows = 0;
};

/// longest[0] and [1]: at least the lengths of the first and of the second 8 rows of every 16. Zero before.
void measure_rows(const TileMatrix& matrix, float* longest, cudaStream_t stream);

void pack_rows(const TileMatrix& to, uint8_t* data, const StagedRows& from, cudaStream_t stream);

}  // namespace penstock::exec::cuda
