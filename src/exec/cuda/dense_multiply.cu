// The multiplication of prompts: blocks of 128 matrix rows and 256 or 128 tokens, or 64 and 64, on warpgroup
// instructions. Weights come as tiles and become float16 fragments in registers; activations are read from
// shared memory. An output's sum runs over the columns in order, whatever the block.
#include "exec/cuda/dense_code.h"
#include "exec/cuda/gate_code.h"
#include "exec/cuda/launch.h"
#include "exec/cuda/tile_code.h"
#include "exec/cuda/wgmma_code.h"

namespace penstock::exec::cuda {
namespace {

/// Sizes of a block: warpgroups of 64 matrix rows that multiply, and one more that copies.
template <int TOKENS>
struct BlockShape {
  static constexpr bool kWide = TOKENS > kFewTokens;
  static constexpr int32_t kRows = kWide ? kDenseRows : kDenseTileRows;
  static constexpr int32_t kGroups = kRows / kDenseTileRows;
  static constexpr int32_t kTiles = kRows / kTileRows;
  static constexpr int32_t kThreads = (kGroups + 1) * 128;
  static constexpr int32_t kPerMultiprocessor = kWide ? 1 : 2;
  static constexpr int32_t kTokenStages = TOKENS == 128 ? 6 : 4;
  static constexpr int32_t kTokenBytes = TOKENS * kDenseCols * 2;
  static constexpr int32_t kSlotStages = kWide ? 3 : 4;
  static constexpr int32_t kSlotBytes = kTiles * 3072;  // no slot of a tile is longer
  static constexpr int32_t kShared = kTokenStages * kTokenBytes + kSlotStages * kSlotBytes + 1024;
};

/// A ring in shared memory: its places in turn.
struct DenseRing {
  uint8_t* data;
  uint64_t *full, *empty;
  int32_t stages, stage_bytes;
  int32_t stage = 0;
  uint32_t phase = 0;

  __device__ uint8_t* at() const { return data + stage * stage_bytes; }
  __device__ void wait_full() const { barrier_wait(&full[stage], phase); }
  __device__ void wait_empty() const { barrier_wait(&empty[stage], phase ^ 1); }  // at once in the first turn
  __device__ void next() {
    if (++stage < stages) return;
    stage = 0;
    phase ^= 1;
  }
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

/// One thread.
template <int TOKENS>
__device__ void copy_tokens(const DenseProduct& p, int32_t tiles, int32_t token_blocks, DenseRing ring) {
  using Block = BlockShape<TOKENS>;
  const int32_t blocks = dense_col_blocks(p.x.cols);
  for (int32_t index = static_cast<int32_t>(blockIdx.x); index < tiles;
       index += static_cast<int32_t>(gridDim.x)) {
    const Tile tile(index, token_blocks, Block::kRows, TOKENS);
    const uint8_t* from =
        p.x.data + static_cast<size_t>(tile.token / kDenseTileRows) * blocks * kDenseTileBytes;
    for (int32_t k = 0; k < blocks; ++k) {
      ring.wait_empty();
      barrier_expect(&ring.full[ring.stage], Block::kTokenBytes);
#pragma unroll
      for (int32_t i = 0; i < TOKENS / kDenseTileRows; ++i)
        bulk_copy(ring.at() + i * kDenseTileBytes,
                  from + static_cast<size_t>(i * blocks + k) * kDenseTileBytes, kDenseTileBytes,
                  &ring.full[ring.stage]);
      ring.next();
    }
  }
}

/// One warp, a lane for each tile of 16 rows.
template <int TOKENS>
__device__ void copy_slots(const DenseProduct& p, int32_t tiles, int32_t token_blocks, DenseRing ring) {
  using Block = BlockShape<TOKENS>;
  const TileShape& shape = p.matrix.shape;
  const auto lane = static_cast<int32_t>(threadIdx.x % 32);
  const int32_t slots = (dense_col_blocks(p.x.cols) + shape.slot_groups - 1) / shape.slot_groups;
  const int32_t slice_slots = shape.slice_slots();
  for (int32_t index = static_cast<int32_t>(blockIdx.x); index < tiles;
       index += static_cast<int32_t>(gridDim.x)) {
    const int32_t first = Tile(index, token_blocks, Block::kRows, TOKENS).row / kTileRows;
    const int32_t here = min(Block::kTiles, shape.tiles - first);
    const int32_t first_tile = (first + lane) / shape.block_tiles * shape.block_tiles;
    const int32_t together = tiles_of_block(shape, first_tile);
    int32_t slice = 0, within = 0;
    for (int32_t s = 0; s < slots; ++s) {
      ring.wait_empty();
      if (lane == 0) barrier_expect(&ring.full[ring.stage], static_cast<uint32_t>(here * shape.slot_bytes));
      __syncwarp();
      if (lane < here) {
        const size_t slot = static_cast<size_t>(slice * shape.tiles + first_tile) * slice_slots +
                            static_cast<size_t>(within * together + first + lane - first_tile);
        bulk_copy(ring.at() + lane * shape.slot_bytes, p.matrix.data + slot * shape.slot_bytes,
                  static_cast<uint32_t>(shape.slot_bytes), &ring.full[ring.stage]);
      }
      if (++within == slice_slots) {
        within = 0;
        ++slice;
      }
      ring.next();
    }
  }
}

/// Codes become 2^-14 of (code * scale + bias) in float16. `group`: of 64 columns in the slot.
template <TileKind K>
__device__ void scale_fragments(const uint8_t* slot, const TileShape& shape, int32_t group,
                                uint32_t (&a)[4][4]) {
  if constexpr (K != TileKind::kHalf) {
    const int32_t row = static_cast<int32_t>(threadIdx.x % 32) / 4;
    const uint8_t* at = slot + shape.slot_groups * shape.code_bytes();
    const auto* scales = reinterpret_cast<const half2*>(at);
    const auto* biases = reinterpret_cast<const uint2*>(at + shape.slot_scales() * 32);
    half2 scale[2][2], bias[2];  // of columns 0 to 7 and 8 to 15 of 16; of rows g and g + 8
#pragma unroll
    for (int step = 0; step < 4; ++step) {
      if (step * shape.scale_groups % 4 == 0) {
        const int32_t own = group * shape.scale_groups + step * shape.scale_groups / 4;
        const half2 both = scales[own * 8 + row];
        const half2 high = K == TileKind::kFour ? __hmul2(both, __float2half2_rn(1.0f / 16)) : both;
        uint2 pairs = biases[own / 2 * 8 + row];
        scale[0][0] = __low2half2(both);
        scale[0][1] = __high2half2(both);
        scale[1][0] = __low2half2(high);
        scale[1][1] = __high2half2(high);
        const uint32_t pick = own % 2 == 0 ? 0x1010u : 0x3232u;
        pairs = {__byte_perm(pairs.x, 0, pick), __byte_perm(pairs.y, 0, pick)};
        bias[0] = __hmul2(*reinterpret_cast<const half2*>(&pairs.x), __float2half2_rn(kSumDown));
        bias[1] = __hmul2(*reinterpret_cast<const half2*>(&pairs.y), __float2half2_rn(kSumDown));
      }
#pragma unroll
      for (int f = 0; f < 4; ++f) {
        const half2 code = *reinterpret_cast<const half2*>(&a[step][f]);
        a[step][f] = bits_of(__hfma2(code, scale[f / 2][f % 2], bias[f % 2]));
      }
    }
  }
}

/// A warp's fragments, 64 columns after another. Behind the last they are those of some other columns.
template <TileKind K>
struct SlotReader {
  DenseRing& ring;
  int32_t warp, left;  // groups of 64 columns
  int32_t group = 0;

  __device__ void read(const TileShape& shape, uint32_t (&a)[4][4]) {
    const int lane = threadIdx.x % 32;
    if (group == 0 && left > 0) ring.wait_full();
    const uint8_t* slot = ring.at() + warp * shape.slot_bytes;
    read_fragments<K>(slot + group * shape.code_bytes(), lane, a);
    scale_fragments<K>(slot, shape, group, a);
    --left;
    if (++group < shape.slot_groups && left != 0) return;
    group = 0;
    if (left < 0) return;
    __syncwarp();
    if (lane == 0) barrier_arrive(&ring.empty[ring.stage]);
    ring.next();
  }
};

/// Starts acc += fragments times the 64 columns of activations there.
template <int TOKENS>
__device__ void multiply_group(float (&acc)[TOKENS / 2], const uint32_t (&a)[4][4], const uint8_t* tokens) {
  const uint64_t b = matrix_descriptor(shared_address(tokens));
  wgmma_fence();
#pragma unroll
  for (int32_t step = 0; step < kDenseCols / 16; ++step)
    wgmma_registers<TOKENS>(acc, a[step], b + static_cast<uint64_t>(step * 2));
  wgmma_commit();
}

/// Of each token of a tile: the power of two of its activations times the matrix's factor, and one over that
/// of what the gate makes of them. In shared memory: loads from the device's would wait for the stores ahead.
template <int TOKENS>
__device__ void read_scales(const DenseProduct& p, const Tile& tile, float2* scales) {
  const float factor = p.matrix.shape.scale_groups > 0 ? p.matrix.factor / kSumDown : p.matrix.factor;
  for (int32_t i = static_cast<int32_t>(threadIdx.x % 128); i < TOKENS; i += 128) {
    const int32_t token = tile.token + i;
    float2 scale = {0, 0};
    if (token < p.tokens) {
      scale.x = power_of(p.x.exponents[token]) * factor;
      if (p.gate.out.data != nullptr) scale.y = power_of(-p.gate.out.exponents[token]);
    }
    scales[i] = scale;
  }
}

/// Column tiles whose scales are read together.
constexpr int kScaleBatch = 4;

/// store(n, scales): of tokens n * 8 + t * 2 and the next one.
template <int TOKENS, class Store>
__device__ void for_columns(const float2* scales, const Store& store) {
  const int t = threadIdx.x % 4;
#pragma unroll
  for (int first = 0; first < TOKENS / 8; first += kScaleBatch) {
    float4 both[kScaleBatch];
#pragma unroll
    for (int i = 0; i < kScaleBatch; ++i)
      both[i] = *reinterpret_cast<const float4*>(scales + (first + i) * 8 + t * 2);
#pragma unroll
    for (int i = 0; i < kScaleBatch; ++i) store(first + i, both[i]);
  }
}

template <int TOKENS>
__device__ void store_tile(const DenseProduct& p, const Tile& tile, const float2* scales,
                           const float (&acc)[TOKENS / 2]) {
  const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
  const int32_t row = tile.row + static_cast<int32_t>(threadIdx.x / 32) * 16 + g;
  const int32_t width = p.matrix.shape.padded_rows(), left = p.tokens - tile.token - t * 2;
  if (row >= width) return;
  float* out = p.out + static_cast<size_t>(tile.token + t * 2) * width + row;
  for_columns<TOKENS>(scales, [&](int n, float4 scale) {
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      if (n * 8 + j >= left) continue;
      float* to = out + (n * 8 + j) * width;
      to[0] = acc[n * 4 + j] * (j == 0 ? scale.x : scale.z);
      to[8] = acc[n * 4 + 2 + j] * (j == 0 ? scale.x : scale.z);
    }
  });
}

/// Rows g are gates, rows g + 8 what they gate: 8 columns of the activations a warp.
template <ops::Activation A, int TOKENS>
__device__ void store_gated(const DenseProduct& p, const Tile& tile, const float2* scales,
                            const float (&acc)[TOKENS / 2]) {
  const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
  const int32_t matrix_tile = tile.row / kTileRows + static_cast<int32_t>(threadIdx.x / 32);
  const int32_t blocks = dense_col_blocks(p.gate.out.cols), left = p.tokens - tile.token - g;
  if (matrix_tile >= p.matrix.shape.tiles) return;
  uint8_t* out = dense_tile(p.gate.out.data, blocks, tile.token, matrix_tile / 8) +
                 dense_piece(g, matrix_tile % 8) + t * 4;
  const size_t next = static_cast<size_t>(blocks) * kDenseTileBytes;  // of 64 tokens
  for_columns<TOKENS>(scales, [&](int n, float4 scale) {
    const float first = activate_fast<A>(acc[n * 4] * scale.x) * (acc[n * 4 + 2] * (scale.x * scale.y));
    const float second = activate_fast<A>(acc[n * 4 + 1] * scale.z) * (acc[n * 4 + 3] * (scale.z * scale.w));
    const uint32_t own = transpose(bits_of(__floats2half2_rn(first, second)));
    if (n * 8 < left) *reinterpret_cast<uint32_t*>(out + n / 8 * next + n % 8 * 1024) = own;
  });
}

template <int TOKENS>
__device__ void store(const DenseProduct& p, const Tile& tile, const float2* scales,
                      const float (&acc)[TOKENS / 2]) {
  if (p.gate.out.data == nullptr) return store_tile<TOKENS>(p, tile, scales, acc);
  switch (p.gate.activation) {
    case ops::Activation::kSilu:
      return store_gated<ops::Activation::kSilu, TOKENS>(p, tile, scales, acc);
    case ops::Activation::kGelu:
      return store_gated<ops::Activation::kGelu, TOKENS>(p, tile, scales, acc);
    default:
      return store_gated<ops::Activation::kGeluTanh, TOKENS>(p, tile, scales, acc);
  }
}

template <TileKind K, int TOKENS>
__global__ void __launch_bounds__(BlockShape<TOKENS>::kThreads, BlockShape<TOKENS>::kPerMultiprocessor)
    multiply_tiles(const DenseProduct p, int32_t tiles, int32_t token_blocks) {
  extern __shared__ uint8_t shared[];
  using Block = BlockShape<TOKENS>;
  __shared__ uint64_t barriers[2 * (Block::kTokenStages + Block::kSlotStages)];
  __shared__ __align__(16)
      float2 scales[Block::kGroups][2][TOKENS];  // of a warpgroup's tile and the one before
  uint8_t* data = align_shared(shared);
  DenseRing tokens{data, barriers, barriers + Block::kTokenStages, Block::kTokenStages, Block::kTokenBytes};
  DenseRing slots{data + Block::kTokenStages * Block::kTokenBytes, barriers + 2 * Block::kTokenStages,
                  barriers + 2 * Block::kTokenStages + Block::kSlotStages, Block::kSlotStages,
                  Block::kSlotBytes};
  if (threadIdx.x == 0) {
    for (int32_t i = 0; i < Block::kTokenStages; ++i) {
      barrier_init(&tokens.full[i]);
      barrier_init(&tokens.empty[i], Block::kGroups);
    }
    for (int32_t i = 0; i < Block::kSlotStages; ++i) {
      barrier_init(&slots.full[i]);
      barrier_init(&slots.empty[i], Block::kGroups * 4);
    }
    barrier_fence();
  }
  __syncthreads();
  allow_next();
  const auto warp = static_cast<int32_t>(threadIdx.x / 32), lane = static_cast<int32_t>(threadIdx.x % 32);
  if (warp >= Block::kGroups * 4) {
    if constexpr (Block::kWide) asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
    if (warp == Block::kGroups * 4 && lane == 0) {
      await_previous();
      copy_tokens<TOKENS>(p, tiles, token_blocks, tokens);
    } else if (warp == Block::kGroups * 4 + 1) {
      copy_slots<TOKENS>(p, tiles, token_blocks, slots);  // weights were there before
    }
    return;
  }
  if constexpr (Block::kWide) asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
  await_previous();
  const TileShape& shape = p.matrix.shape;
  const int32_t blocks = dense_col_blocks(p.x.cols);
  int32_t parity = 0;
  for (int32_t index = static_cast<int32_t>(blockIdx.x); index < tiles;
       index += static_cast<int32_t>(gridDim.x), parity ^= 1) {
    const Tile tile(index, token_blocks, Block::kRows, TOKENS);
    float2* own_scales = scales[warp / 4][parity];
    read_scales<TOKENS>(p, tile, own_scales);
    float acc[TOKENS / 2];
#pragma unroll
    for (float& value : acc) value = 0;
    // Fragments are made while the instructions of those before run.
    uint32_t a[2][4][4];
    SlotReader<K> reader{slots, warp, blocks};
    const auto step = [&](const uint32_t(&now)[4][4], uint32_t(&next)[4][4]) {
      tokens.wait_full();
      multiply_group<TOKENS>(acc, now, tokens.at());
      reader.read(shape, next);
      wgmma_wait<0>();
      if (threadIdx.x % 128 == 0) barrier_arrive(&tokens.empty[tokens.stage]);
      tokens.next();
    };
    reader.read(shape, a[0]);
    for (int32_t k = 0; k < blocks; k += 2) {
      step(a[0], a[1]);
      if (k + 1 == blocks) break;
      step(a[1], a[0]);
    }
    asm volatile("bar.sync %0, 128;" ::"r"(1 + warp / 4) : "memory");  // scales
    store<TOKENS>(p, tile, own_scales, acc);
  }
}

template <TileKind K, int TOKENS>
void launch_product(const DenseProduct& product, cudaStream_t stream) {
  using Block = BlockShape<TOKENS>;
  static const bool allowed = [] {
    check(cudaFuncSetAttribute(reinterpret_cast<const void*>(multiply_tiles<K, TOKENS>),
                               cudaFuncAttributeMaxDynamicSharedMemorySize, Block::kShared),
          "shared memory");
    return true;
  }();
  static_cast<void>(allowed);
  const int32_t token_blocks = (product.tokens + TOKENS - 1) / TOKENS;
  const int32_t tiles = (product.matrix.shape.tiles + Block::kTiles - 1) / Block::kTiles * token_blocks;
  constexpr int32_t kMost = 132 * Block::kPerMultiprocessor;
  const LaunchShape shape{static_cast<unsigned>(tiles < kMost ? tiles : kMost), Block::kThreads,
                          Block::kShared};
  launch(multiply_tiles<K, TOKENS>, shape, stream, product, tiles, token_blocks);
}

/// About how long it takes: turns of the multiprocessors times the work of each. Half a block takes longer
/// than half the time.
int32_t cost(const DenseProduct& product, int32_t tokens) {
  const int32_t rows = (product.matrix.shape.padded_rows() + kDenseRows - 1) / kDenseRows;
  const int32_t turns = (rows * ((product.tokens + tokens - 1) / tokens) + 131) / 132;
  return turns * (tokens == kDenseTokens ? 8 : 5);
}

template <TileKind K>
void multiply_kind(const DenseProduct& product, cudaStream_t stream) {
  int32_t block = product.block_tokens;
  if (block == 0 && product.tokens <= kFewTokens) block = kFewTokens;
  if (block == 0) block = cost(product, 128) < cost(product, kDenseTokens) ? 128 : kDenseTokens;
  if (block == kFewTokens) return launch_product<K, kFewTokens>(product, stream);
  if (block == 128) return launch_product<K, 128>(product, stream);
  launch_product<K, kDenseTokens>(product, stream);
}

}  // namespace

void multiply_dense(const DenseProduct& product, cudaStream_t stream) {
  switch (product.matrix.shape.of.kind) {
    case TileKind::kFour:
      return multiply_kind<TileKind::kFour>(product, stream);
    case TileKind::kEight:
      return multiply_kind<TileKind::kEight>(product, stream);
    default:
      return multiply_kind<TileKind::kHalf>(product, stream);
  }
}

}  // namespace penstock::exec::cuda
