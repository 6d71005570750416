// The multiplication of prompts: blocks of 128 matrix rows and 256 tokens, or 64 and 64, on warpgroup
// instructions. An output's sum runs over the columns in order, whatever the block.
#include "exec/cuda/dense_code.h"
#include "exec/cuda/launch.h"
#include "exec/cuda/wgmma_code.h"

namespace penstock::exec::cuda {
namespace {

/// Sizes of a block: warpgroups of 64 matrix rows that multiply, and one more that copies.
template <int TOKENS>
struct BlockShape {
  static constexpr bool kWide = TOKENS == kDenseTokens;
  static constexpr int32_t kRows = kWide ? kDenseRows : kDenseTileRows;
  static constexpr int32_t kGroups = kRows / kDenseTileRows;
  static constexpr int32_t kThreads = (kGroups + 1) * 128;
  static constexpr int32_t kStages = kWide ? 4 : 6;
  static constexpr int32_t kPerMultiprocessor = kWide ? 1 : 2;
  static constexpr int32_t kMatrixBytes = kRows * kDenseCols * 2;
  static constexpr int32_t kStageBytes = kMatrixBytes + TOKENS * kDenseCols * 2;
};

struct Tile {
  int32_t row, token;  // first ones

  __device__ Tile(int32_t index, int32_t token_blocks, int32_t rows, int32_t tokens)
      : row(index / token_blocks * rows), token(index % token_blocks * tokens) {}
};

/// A multiple of 1024 at or behind the address.
__device__ uint8_t* align_shared(uint8_t* at) {
  return at + ((1024 - (shared_address(at) & 1023)) & 1023);
}

template <int TOKENS>
__device__ void copy_tiles(const DenseProduct& p, int32_t tiles, int32_t token_blocks, uint8_t* ring,
                           uint64_t* full, uint64_t* empty) {
  using Block = BlockShape<TOKENS>;
  const int32_t blocks = dense_col_blocks(p.x.cols);
  int32_t stage = 0, filled = 0;
  uint32_t phase = 1;
  for (int32_t index = static_cast<int32_t>(blockIdx.x); index < tiles;
       index += static_cast<int32_t>(gridDim.x)) {
    const Tile tile(index, token_blocks, Block::kRows, TOKENS);
    const auto from = [&](const uint8_t* data, int32_t row) {
      return data + static_cast<size_t>(row / kDenseTileRows) * blocks * kDenseTileBytes;
    };
    for (int32_t k = 0; k < blocks; ++k) {
      if (filled >= Block::kStages) barrier_wait(&empty[stage], phase);
      uint8_t* to = ring + stage * Block::kStageBytes;
      barrier_expect(&full[stage], Block::kStageBytes);
#pragma unroll
      for (int32_t i = 0; i < Block::kGroups; ++i)
        bulk_copy(to + i * kDenseTileBytes,
                  from(p.matrix, tile.row + i * kDenseTileRows) + static_cast<size_t>(k) * kDenseTileBytes,
                  kDenseTileBytes, &full[stage]);
      to += Block::kMatrixBytes;
#pragma unroll
      for (int32_t i = 0; i < TOKENS / kDenseTileRows; ++i)
        bulk_copy(to + i * kDenseTileBytes,
                  from(p.x.data, tile.token + i * kDenseTileRows) + static_cast<size_t>(k) * kDenseTileBytes,
                  kDenseTileBytes, &full[stage]);
      ++filled;
      if (++stage == Block::kStages) {
        stage = 0;
        phase ^= 1;
      }
    }
  }
}

template <int TOKENS>
__device__ void store_tile(const DenseProduct& p, const Tile& tile, const float (&acc)[TOKENS / 2]) {
  const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
  const int32_t row = tile.row + static_cast<int32_t>(threadIdx.x / 32) * 16 + g;
#pragma unroll
  for (int n = 0; n < TOKENS / 8; ++n)
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      const int32_t token = tile.token + n * 8 + t * 2 + j;
      if (token >= p.tokens) continue;
      const int32_t exponent = p.x.exponents[token];
      const float scale = exponent == kNoExponent ? 0.0f : exp2f(static_cast<float>(exponent)) * p.factor;
      float* out = p.out + static_cast<size_t>(token) * p.width + row;
      if (row < p.rows) out[0] = acc[n * 4 + j] * scale;
      if (row + 8 < p.rows) out[8] = acc[n * 4 + 2 + j] * scale;
    }
}

template <int TOKENS>
__global__ void __launch_bounds__(BlockShape<TOKENS>::kThreads, BlockShape<TOKENS>::kPerMultiprocessor)
    multiply_tiles(const DenseProduct p, int32_t tiles, int32_t token_blocks) {
  extern __shared__ uint8_t shared[];
  using Block = BlockShape<TOKENS>;
  __shared__ uint64_t full[Block::kStages], empty[Block::kStages];
  uint8_t* ring = align_shared(shared);
  if (threadIdx.x < Block::kStages) {
    barrier_init(&full[threadIdx.x]);
    barrier_init(&empty[threadIdx.x], Block::kGroups);
    barrier_fence();
  }
  __syncthreads();
  allow_next();
  if (threadIdx.x >= Block::kGroups * 128) {
    if constexpr (Block::kWide) asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
    if (threadIdx.x == Block::kGroups * 128) {
      await_previous();
      copy_tiles<TOKENS>(p, tiles, token_blocks, ring, full, empty);
    }
    return;
  }
  if constexpr (Block::kWide) asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
  await_previous();
  const int32_t group = static_cast<int32_t>(threadIdx.x / 128), blocks = dense_col_blocks(p.x.cols);
  int32_t stage = 0, before = -1;
  uint32_t phase = 0;
  for (int32_t index = static_cast<int32_t>(blockIdx.x); index < tiles;
       index += static_cast<int32_t>(gridDim.x)) {
    const Tile tile(index, token_blocks, Block::kRows, TOKENS);
    float acc[TOKENS / 2];
    for (int32_t k = 0; k < blocks; ++k) {
      barrier_wait(&full[stage], phase);
      const uint32_t at = shared_address(ring + stage * Block::kStageBytes);
      const uint64_t a = matrix_descriptor(at + static_cast<uint32_t>(group * kDenseTileBytes));
      const uint64_t b = matrix_descriptor(at + Block::kMatrixBytes);
      wgmma_fence();
#pragma unroll
      for (int32_t step = 0; step < kDenseCols / 16; ++step)
        wgmma<TOKENS>(acc, a + step * 2, b + step * 2, k > 0 || step > 0);
      wgmma_commit();
      wgmma_wait<1>();
      if (before >= 0 && threadIdx.x % 128 == 0) barrier_arrive(&empty[before]);
      before = stage;
      if (++stage == Block::kStages) {
        stage = 0;
        phase ^= 1;
      }
    }
    wgmma_wait<0>();
    store_tile<TOKENS>(p, tile, acc);
  }
}

template <int TOKENS>
void launch_product(const DenseProduct& product, cudaStream_t stream) {
  using Block = BlockShape<TOKENS>;
  constexpr int32_t kShared = Block::kStages * Block::kStageBytes + 1024;
  static const bool allowed = [] {
    check(cudaFuncSetAttribute(reinterpret_cast<const void*>(multiply_tiles<TOKENS>),
                               cudaFuncAttributeMaxDynamicSharedMemorySize, kShared),
          "shared memory");
    return true;
  }();
  static_cast<void>(allowed);
  const int32_t token_blocks = (product.tokens + TOKENS - 1) / TOKENS;
  const int32_t tiles = (product.rows + Block::kRows - 1) / Block::kRows * token_blocks;
  constexpr int32_t kMost = 132 * Block::kPerMultiprocessor;
  const LaunchShape shape{static_cast<unsigned>(tiles < kMost ? tiles : kMost), Block::kThreads, kShared};
  launch(multiply_tiles<TOKENS>, shape, stream, product, tiles, token_blocks);
}

}  // namespace

void multiply_dense(const DenseProduct& product, cudaStream_t stream) {
  if (product.tokens <= kFewTokens) return launch_product<kFewTokens>(product, stream);
  launch_product<kDenseTokens>(product, stream);
}

}  // namespace penstock::exec::cuda
