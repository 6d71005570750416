#include <algorithm>

#include "base/error.h"
#include "exec/cuda/linear.h"
#include "exec/cuda/linear_kinds.h"

namespace penstock::exec::cuda {
namespace {

/// Exact mode: one warp for each output, columns over its lanes.
__global__ void linear_float(const float* weights, const float* x, float* out, int32_t rows, int32_t cols) {
  allow_next();
  await_previous();
  const int32_t row = static_cast<int32_t>(blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32);
  if (row >= rows) return;
  const float* w = weights + static_cast<size_t>(row) * cols;
  const float* in = x + static_cast<size_t>(blockIdx.y) * cols;
  float sum = 0;
  for (int32_t c = threadIdx.x % 32; c < cols; c += 32) sum = fmaf(w[c], in[c], sum);
  sum = sum_lanes(sum);
  if (threadIdx.x % 32 == 0) out[static_cast<size_t>(blockIdx.y) * rows + row] = sum;
}

}  // namespace

size_t partial_floats(const TileShape& shape) {
  if (shape.of.kind == TileKind::kFloat) return size_t{kPassRows} * static_cast<size_t>(shape.rows);
  return static_cast<size_t>(shape.slices) * kPassRows * static_cast<size_t>(shape.padded_rows());
}

namespace {

void run_tiles(LinearArguments arguments, cudaStream_t stream) {
  RunTiles run = nullptr;
  for (const auto find : {find_four, find_sixteen, find_eight, find_half})
    if (run == nullptr) run = find(arguments.shape.of);
  if (run == nullptr)
    throw base::Error(base::Code::kUnsupported, "[exec.cuda.linear] expected a class of tiles with a kernel");
  run(arguments, column_tiles(arguments.rows), stream);
}

LinearArguments arguments_of(const TileMatrix& matrix, const Activations& x, int32_t rows) {
  LinearArguments a;
  a.weights = matrix.data;
  a.x = static_cast<const uint8_t*>(x.data);
  a.exponents = x.exponents;
  a.shape = matrix.shape;
  a.factor = matrix.factor;
  if (matrix.shape.scale_groups > 0) a.factor /= kSumDown;
  a.rows = rows;
  if (x.pieces != nullptr) a.merge = *x.pieces;
  return a;
}

}  // namespace

Partials multiply(const TileMatrix& matrix, const Activations& x, int32_t rows, float* out,
                  cudaStream_t stream) {
  const TileShape& shape = matrix.shape;
  if (shape.of.kind == TileKind::kFloat) {
    const dim3 grid(static_cast<unsigned>((shape.rows + 7) / 8), static_cast<unsigned>(rows));
    launch(linear_float, {grid, 256}, stream, reinterpret_cast<const float*>(matrix.data),
           static_cast<const float*>(x.data), out, shape.rows, shape.cols);
    return {out, 1, shape.rows, 0};
  }
  LinearArguments arguments = arguments_of(matrix, x, rows);
  arguments.out = out;
  run_tiles(arguments, stream);
  return {out, shape.slices, shape.padded_rows(),
          static_cast<size_t>(std::max(column_tiles(rows), 1) * 8) * shape.padded_rows()};
}

bool can_merge(const TileShape& shape, int32_t rows) {
  const int32_t blocks = (shape.tiles + shape.block_tiles - 1) / shape.block_tiles * shape.slices;
  // Merging takes long: each warp has 64 columns of one row at most.
  return shape.of.kind != TileKind::kFloat && blocks <= 132 &&
         rows * shape.slice_slots() * shape.slot_groups <= shape.block_tiles &&
         shape.slice_slots() <= stages_of(shape, column_tiles(rows));
}

void multiply_gated(const TileMatrix& matrix, const Activations& x, int32_t rows, const GateStore& gate,
                    cudaStream_t stream) {
  LinearArguments arguments = arguments_of(matrix, x, rows);
  arguments.gate = gate;
  run_tiles(arguments, stream);
}

void prepare_linear() {
  prepare_four();
  prepare_sixteen();
  prepare_eight();
  prepare_half();
}

}  // namespace penstock::exec::cuda
