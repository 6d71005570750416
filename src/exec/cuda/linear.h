// Multiplying up to 64 prepared activation rows with one matrix. Each column slice of the matrix gives one
// partial sum; whoever reads the result adds the slices in order, so a row's bits depend on the matrix only.
#pragma once

#include <cuda_runtime.h>

#include "exec/cuda/tile_shape.h"
#include "ops/operation.h"

namespace penstock::exec::cuda {

/// Partial sums: value(row, column) = sum over slices, in order, of data[slice][row][column].
struct Partials {
  const float* data = nullptr;
  int32_t slices = 1;       // 1, 2, 3, 4, 6 or 8
  int32_t width = 0;        // floats of a row
  size_t slice_floats = 0;  // from a slice to the next
};

struct AttendArguments;

/// Prepared activations: an ActivationSlot of each slot for column_tiles(rows), in order (kFloat: [rows,
/// cols] float32), and the exponents of the rows. kExponents of those may be read. Or pieces of attention
/// that the multiplication merges itself, where can_merge().
struct Activations {
  const void* data = nullptr;
  const int32_t* exponents = nullptr;
  const AttendArguments* pieces = nullptr;
};
inline constexpr int32_t kExponents = 2 * kPassRows;

/// Where the products of a matrix of 8 gate and 8 up rows in turn become activation(gate) * up, prepared for
/// a matrix of this shape, whose padding nobody writes. The exponents of its rows stand behind those of the
/// activations.
struct GateStore {
  uint8_t* data = nullptr;  // null: nothing of this
  TileShape shape;
  ops::Activation activation = ops::Activation::kSilu;
};

/// Column tiles (of 8 rows) of the activations of this many rows: 0 for one row, 1, 2, 4 or 8.
constexpr int32_t column_tiles(int32_t rows) {
  return rows == 1 ? 0 : rows <= 8 ? 1 : rows <= 16 ? 2 : rows <= 32 ? 4 : 8;
}

/// Floats of the partial sums of `shape` for one pass of rows.
size_t partial_floats(const TileShape& shape);

/// Returns where the sums lie in `out`.
Partials multiply(const TileMatrix& matrix, const Activations& x, int32_t rows, float* out,
                  cudaStream_t stream);

/// For so few rows, and a matrix of which every block of threads has one part.
bool can_merge(const TileShape& shape, int32_t rows);

/// Through the gate instead.
void multiply_gated(const TileMatrix& matrix, const Activations& x, int32_t rows, const GateStore& gate,
                    cudaStream_t stream);

/// Raises the kernels' shared-memory limits; once, before any launch.
void prepare_linear();

}  // namespace penstock::exec::cuda
