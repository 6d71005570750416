// Expanding weight tiles to float16 for the prompts' multiplication.
#include "exec/cuda/dense_code.h"
#include "exec/cuda/launch.h"
#include "exec/cuda/tile_code.h"

namespace penstock::exec::cuda {
namespace {

constexpr int32_t kWarps = 8;

/// What scale_fragments needs of one code: (code + offset) * scale + (bias - offset * scale), in float32.
template <TileKind K>
__device__ uint32_t expand_pair(uint32_t codes, int fragment, float scale, float bias) {
  const float2 code = __half22float2(*reinterpret_cast<const half2*>(&codes));
  const float offset = code_offset(K, fragment < 2 ? 0 : 8);
  return bits_of(__floats2half2_rn(fmaf(code.x - offset, scale, bias), fmaf(code.y - offset, scale, bias)));
}

/// One warp for each tile of 16 rows and group of 64 columns.
template <TileKind K>
__global__ void __launch_bounds__(kWarps * 32) expand_tiles(const TileMatrix matrix, uint8_t* out) {
  allow_next();
  const TileShape& shape = matrix.shape;
  const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
  const auto tile = static_cast<int32_t>(blockIdx.x);
  const int32_t group = static_cast<int32_t>(blockIdx.y) * kWarps + threadIdx.x / 32;
  const int32_t col_blocks = dense_col_blocks(shape.cols);
  if (group >= col_blocks) return await_previous();
  const ElementPlace place(shape, tile * kTileRows, group * kGroupCols);
  const uint8_t* slot = matrix.data + place.slot * static_cast<size_t>(shape.slot_bytes);
  uint32_t a[4][4];
  read_fragments<K>(slot + place.group * shape.code_bytes(), lane, a);
  if constexpr (K != TileKind::kHalf) {
#pragma unroll
    for (int step = 0; step < 4; ++step) {
      const ElementPlace low(shape, tile * kTileRows + g, group * kGroupCols + step * 16);
      const ElementPlace high(shape, tile * kTileRows + g + 8, group * kGroupCols + step * 16);
      const auto at = [&](int32_t byte) { return __half2float(*reinterpret_cast<const half*>(slot + byte)); };
      const float scale[2] = {at(low.scale_byte(shape)), at(high.scale_byte(shape))};
      const float bias[2] = {at(low.bias_byte(shape)), at(high.bias_byte(shape))};
#pragma unroll
      for (int f = 0; f < 4; ++f) a[step][f] = expand_pair<K>(a[step][f], f, scale[f % 2], bias[f % 2]);
    }
  }
  await_previous();  // the buffer is read by the multiplication ahead
#pragma unroll
  for (int half_tile = 0; half_tile < 2; ++half_tile) {
    const int32_t row = tile * kTileRows + half_tile * 8 + g, own = row % kDenseTileRows;
    uint8_t* to = dense_tile(out, col_blocks, row, group);
#pragma unroll
    for (int piece = 0; piece < 2; ++piece)
      *reinterpret_cast<uint4*>(to + dense_piece(own, t * 2 + piece)) = {
          a[piece * 2][half_tile], a[piece * 2][half_tile + 2], a[piece * 2 + 1][half_tile],
          a[piece * 2 + 1][half_tile + 2]};
  }
}

}  // namespace

void expand_matrix(const TileMatrix& matrix, uint8_t* out, cudaStream_t stream) {
  const auto groups = static_cast<unsigned>((dense_col_blocks(matrix.shape.cols) + kWarps - 1) / kWarps);
  const LaunchShape shape{dim3(static_cast<unsigned>(matrix.shape.tiles), groups), kWarps * 32};
  const auto kernel = matrix.shape.of.kind == TileKind::kFour    ? expand_tiles<TileKind::kFour>
                      : matrix.shape.of.kind == TileKind::kEight ? expand_tiles<TileKind::kEight>
                                                                 : expand_tiles<TileKind::kHalf>;
  launch(kernel, shape, stream, matrix, out);
}

}  // namespace penstock::exec::cuda
