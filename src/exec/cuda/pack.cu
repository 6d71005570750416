#include "exec/cuda/device.h"
#include "exec/cuda/pack.h"
#include "exec/cuda/tile_code.h"

namespace penstock::exec::cuda {
namespace {

/// A block packs 16 rows and 64 columns; a thread has one lane and one k step of the fragments.
__global__ void pack_tiles(TileShape shape, uint8_t* data, StagedRows from) {
  const int32_t tile_row = from.first_row + static_cast<int32_t>(blockIdx.x) * kTileRows;
  const int32_t tile_col = static_cast<int32_t>(blockIdx.y) * kGroupCols;
  const int32_t staged = tile_row - from.first_row;
  const int lane = threadIdx.x % 32, step = threadIdx.x / 32;
  uint32_t word = 0;
  for (int f = 0; f < 4; ++f)
    for (int h = 0; h < 2; ++h) {
      const int32_t row = lane / 4 + f % 2 * 8, col = tile_col + step * 16 + lane % 4 * 2 + h + f / 2 * 8;
      const ElementPlace place(shape, tile_row + row, col);
      uint8_t* at = data + place.slot * shape.slot_bytes + place.byte(shape);
      const bool inside = col < shape.cols;
      const size_t index = static_cast<size_t>(staged + row) * shape.cols + col;
      if (shape.of.kind == TileKind::kHalf) {
        *reinterpret_cast<half*>(at) =
            inside ? static_cast<const half*>(from.values)[index] : __float2half_rn(0);
      } else if (shape.of.kind == TileKind::kEight) {
        *at = inside ? from.codes[index] : 0;
      } else {
        word |= static_cast<uint32_t>(inside ? from.codes[index] : 0) << (place.nibble() * 4);
        if (f == 3 && h == 1) *reinterpret_cast<uint32_t*>(at) = word;
      }
    }
  if (shape.of.kind == TileKind::kHalf) return;
  const int32_t groups = shape.cols / shape.of.group;
  for (int i = threadIdx.x; i < shape.scale_groups * kTileRows; i += blockDim.x) {
    const int32_t row = i % kTileRows, col = tile_col + i / kTileRows * shape.of.group;
    const ElementPlace place(shape, tile_row + row, col);
    uint8_t* slot = data + place.slot * shape.slot_bytes;
    float2 scale = {0, 0};
    if (col < shape.cols)
      scale = from.scales[static_cast<size_t>(staged + row) * groups + col / shape.of.group];
    *reinterpret_cast<half*>(slot + place.scale_byte(shape)) = __float2half_rn(scale.x * kScaleUp);
    *reinterpret_cast<half*>(slot + place.bias_byte(shape)) = __float2half_rn(scale.y);
  }
}

/// A warp for each row.
__global__ void row_lengths(TileMatrix matrix, float* longest) {
  const auto row = static_cast<int32_t>(blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32);
  if (row >= matrix.shape.padded_rows()) return;
  float squares = 0;
  for (int32_t c = threadIdx.x % 32; c < matrix.shape.cols; c += 32) {
    const float value = read_element(matrix, row, c);
    squares = fmaf(value, value, squares);
  }
  squares = sum_lanes(squares);
  // Floats that are not negative are in the order of their bits.
  if (threadIdx.x % 32 == 0)
    atomicMax(reinterpret_cast<int*>(longest + row / 8 % 2), __float_as_int(sqrtf(squares) * 1.001f));
}

}  // namespace

void measure_rows(const TileMatrix& matrix, float* longest, cudaStream_t stream) {
  row_lengths<<<static_cast<unsigned>((matrix.shape.padded_rows() + 7) / 8), 256, 0, stream>>>(matrix,
                                                                                               longest);
  check(cudaGetLastError(), "measure rows");
}

void pack_rows(const TileMatrix& to, uint8_t* data, const StagedRows& from, cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>(from.n_rows / kTileRows),
                  static_cast<unsigned>(to.shape.padded_cols() / kGroupCols));
  pack_tiles<<<grid, 128, 0, stream>>>(to.shape, data, from);
  check(cudaGetLastError(), "pack");
}

}  // namespace penstock::exec::cuda
