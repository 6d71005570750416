// Multiplying up to 64 prepared activation rows with one matrix. Each column slice of the matrix gives one
// partial sum; whoever reads the result adds the slices in order, so a row's bits depend on the matrix only.
#pragma once

#include <cuda_runtime.h>

#include "exec/cuda/tile_shape.h"

namespace penstock::exec::cuda {

/// Partial sums: value(row, column) = sum over slices, in order, of data[slice][row][column]; where `squares`
/// is there, divided by the root of the mean square of the activations' row, which was left out before.
struct Partials {
  const float* data = nullptr;
  int32_t slices = 1;              // 1, 2, 3, 4, 6 or 8
  int32_t width = 0;               // floats of a row
  size_t slice_floats = 0;         // from a slice to the next
  const float* squares = nullptr;  // [rows, kMaxSquares]: sums of squares of a row's chunks
  int32_t n_squares = 0, columns = 0;
  float eps = 0;
};

inline constexpr int32_t kMaxSquares = 64;

/// Column tiles (of 8 rows) that are computed for this many rows: 1, 2, 4 or 8.
constexpr int32_t column_tiles(int32_t rows) {
  return rows <= 8 ? 1 : rows <= 16 ? 2 : rows <= 32 ? 4 : 8;
}

/// Floats of the partial sums of `shape` for one pass of rows.
size_t partial_floats(const TileShape& shape);

/// `x`: an ActivationSlot of each slot for column_tiles(rows), in order (kFloat: [rows, cols] float32).
/// Returns where the sums lie in `out`.
Partials multiply(const TileMatrix& matrix, const void* x, int32_t rows, float* out, cudaStream_t stream);

/// Raises the kernels' shared-memory limits; once, before any launch.
void prepare_linear();

}  // namespace penstock::exec::cuda
