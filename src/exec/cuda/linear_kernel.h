// The kernel behind multiply(): each warp streams its own tiles through its own ring in shared memory, the
// block's activations arrive chunk by chunk. Included by one source file for each kind of tile.
#pragma once

#include "exec/cuda/launch.h"
#include "exec/cuda/linear.h"
#include "exec/cuda/slot_stream.h"
#include "exec/cuda/tile_code.h"

namespace penstock::exec::cuda {

inline constexpr int32_t kMaxWarps = 16;
inline constexpr int32_t kMaxStages = 8;
inline constexpr int32_t kRingBytes = 76 * 1024;  // of a block, aimed at: enough to keep the memory busy

template <TileKind K, int G, int NT, int MT>
struct LinearKernel {
  static constexpr int kScaleGroups = K == TileKind::kHalf ? 0 : kGroupCols / G;  // in 64 columns
  static constexpr int kCodeBytes = K == TileKind::kFour ? 512 : K == TileKind::kEight ? 1024 : 2048;

  float acc[MT][NT][4];

  __device__ void clear() {
#pragma unroll
    for (auto& tile : acc)
#pragma unroll
      for (auto& column : tile)
#pragma unroll
        for (float& value : column) value = 0;
  }

  /// Sums so far were made of activations times 2^-before; from here on they are 2^-now.
  __device__ void rescale(const int32_t* now, int32_t (&before)[NT][2], int t) {
#pragma unroll
    for (int n = 0; n < NT; ++n)
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int32_t exponent = now[n * 8 + t * 2 + i];
        if (exponent == kNoExponent || exponent == before[n][i]) continue;
        if (before[n][i] != kNoExponent) {
          const float factor = exp2f(static_cast<float>(before[n][i] - exponent));
#pragma unroll
          for (auto& tile : acc) {
            tile[n][i] *= factor;
            tile[n][i + 2] *= factor;
          }
        }
        before[n][i] = exponent;
      }
  }

  /// One group of 64 columns.
  __device__ void step(const uint8_t* const (&slot)[MT], int group, int slot_groups,
                       const uint8_t* fragments) {
    const int lane = threadIdx.x % 32;
    uint32_t a[MT][4][4];
#pragma unroll
    for (int m = 0; m < MT; ++m) {
      read_fragments<K>(slot[m] + group * kCodeBytes, lane, a[m]);
      if constexpr (K != TileKind::kHalf) {
        const auto* scales = reinterpret_cast<const half2*>(slot[m] + slot_groups * kCodeBytes) +
                             group * kScaleGroups * 8 + lane / 4;
        scale_fragments<K, 0, 4 / kScaleGroups>(scales[0], a[m]);
        if constexpr (kScaleGroups >= 2)
          scale_fragments<K, 4 / kScaleGroups, 8 / kScaleGroups>(scales[8], a[m]);
        if constexpr (kScaleGroups == 4) {
          scale_fragments<K, 2, 3>(scales[16], a[m]);
          scale_fragments<K, 3, 4>(scales[24], a[m]);
        }
      }
    }
#pragma unroll
    for (int pair = 0; pair < 2; ++pair) {
      uint4 b[NT];
#pragma unroll
      for (int n = 0; n < NT; ++n)
        b[n] = reinterpret_cast<const uint4*>(fragments)[(pair * NT + n) * 32 + lane];
#pragma unroll
      for (int n = 0; n < NT; ++n)
#pragma unroll
        for (int m = 0; m < MT; ++m) mma(acc[m][n], a[m][pair * 2], b[n].x, b[n].y);
#pragma unroll
      for (int n = 0; n < NT; ++n)
#pragma unroll
        for (int m = 0; m < MT; ++m) mma(acc[m][n], a[m][pair * 2 + 1], b[n].z, b[n].w);
    }
  }

  /// Adds the biases of a slot times the sums of the activations.
  __device__ void add_biases(const uint8_t* const (&slot)[MT], const TileShape& shape, const uint8_t* sums) {
    const int lane = threadIdx.x % 32;
    const int32_t scales = shape.slot_scales();
    for (int32_t i = 0; i < shape.bias_steps(); ++i) {
      const int32_t pair = i * 4 + lane % 4;
      uint32_t a[MT][4];
#pragma unroll
      for (int m = 0; m < MT; ++m) {
        uint2 bias = {0, 0};
        if (pair * 2 < scales)
          bias = reinterpret_cast<const uint2*>(slot[m] + shape.slot_groups * kCodeBytes +
                                                scales * 32)[pair * 8 + lane / 4];
        a[m][0] = a[m][2] = bias.x;
        a[m][1] = a[m][3] = bias.y;
      }
#pragma unroll
      for (int n = 0; n < NT; ++n) {
        const uint2 b = reinterpret_cast<const uint2*>(sums)[(i * NT + n) * 32 + lane];
#pragma unroll
        for (int m = 0; m < MT; ++m) mma(acc[m][n], a[m], b.x, b.y);
      }
    }
  }

  __device__ void slot(const uint8_t* const (&tiles)[MT], const TileShape& shape, const uint8_t* fragments,
                       const uint8_t* sums) {
    if (shape.slot_groups == 4) {
#pragma unroll
      for (int32_t group = 0; group < 4; ++group) step(tiles, group, 4, fragments + group * NT * 1024);
    } else {
      for (int32_t group = 0; group < shape.slot_groups; ++group)
        step(tiles, group, shape.slot_groups, fragments + group * NT * 1024);
    }
    if constexpr (K != TileKind::kHalf) add_biases(tiles, shape, sums);
  }

  /// out: [rows, width] of the slice.
  __device__ void store(float* out, int32_t width, int32_t tile, const int32_t (&exponents)[NT][2],
                        float factor) {
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
#pragma unroll
    for (int n = 0; n < NT; ++n)
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int32_t exponent = exponents[n][i] == kNoExponent ? 0 : exponents[n][i];
        const float scale = exp2f(static_cast<float>(exponent)) * factor;
        float* row = out + static_cast<size_t>(n * 8 + t * 2 + i) * width + g;
#pragma unroll
        for (int m = 0; m < MT; ++m) {
          if ((tile + m) * kTileRows >= width) continue;
          row[(tile + m) * kTileRows] = acc[m][n][i] * scale;
          row[(tile + m) * kTileRows + 8] = acc[m][n][i + 2] * scale;
        }
      }
  }
};

template <TileKind K, int G, int NT, int MT>
__global__ void __launch_bounds__(kMaxWarps * 32 / MT, 1) linear_tiles(const LinearArguments a) {
  extern __shared__ __align__(128) uint8_t shared[];
  __shared__ uint64_t x_full[2], slot_full[kMaxWarps][kMaxStages];
  const TileShape& shape = a.shape;
  const ActivationChunk record(shape, NT);
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int32_t stage_bytes = MT * shape.slot_bytes;
  uint8_t* ring = shared + 2 * record.bytes + warp * a.stages * stage_bytes;
  const auto first = static_cast<int32_t>(int64_t{a.units} * blockIdx.x / gridDim.x);
  const auto last = static_cast<int32_t>(int64_t{a.units} * (blockIdx.x + 1) / gridDim.x);

  if (threadIdx.x == 0) {
    barrier_init(&x_full[0]);
    barrier_init(&x_full[1]);
  }
  if (lane == 0) {
    for (int i = 0; i < a.stages; ++i) barrier_init(&slot_full[warp][i]);
    barrier_fence();
  }
  __syncthreads();
  SlotStream<MT> stream(a, first, (last - first) * shape.chunks * shape.slots, warp * MT);
  if (lane == 0)
    for (int32_t i = 0; i < a.stages && stream.remaining > 0; ++i)
      stream.issue(a, ring, slot_full[warp], warp * MT);
  allow_next();
  await_previous();

  const int32_t n_chunks = (last - first) * shape.chunks;
  // Chunks of a slice lie in order, and the next slice follows; units of one slice begin again at its first.
  int32_t load_slice = first / a.row_blocks, load_block = first % a.row_blocks, load_chunk = 0, loaded = 0;
  const auto load_x = [&] {  // thread 0
    const auto chunk = static_cast<size_t>(load_slice * shape.chunks + load_chunk);
    uint64_t* full = &x_full[loaded & 1];
    barrier_expect(full, static_cast<uint32_t>(record.bytes));
    bulk_copy(shared + (loaded & 1) * record.bytes, a.x + chunk * record.bytes,
              static_cast<uint32_t>(record.bytes), full);
    ++loaded;
    if (++load_chunk < shape.chunks) return;
    load_chunk = 0;
    if (++load_block < a.row_blocks) return;
    load_block = 0;
    ++load_slice;
  };
  if (threadIdx.x == 0)
    while (loaded < min(2, n_chunks)) load_x();

  LinearKernel<K, G, NT, MT> kernel;
  int32_t exponents[NT][2];
  int32_t stage = 0, chunk = 0, slice = first / a.row_blocks, block = first % a.row_blocks;
  uint32_t phase = 0;
  for (int32_t index = 0; index < n_chunks; ++index) {
    const uint8_t* x = shared + (index & 1) * record.bytes;
    const uint8_t* sums = x + record.fragment_bytes;
    if (chunk == 0) {
      kernel.clear();
#pragma unroll
      for (auto& exponent : exponents) exponent[0] = exponent[1] = kNoExponent;
    }
    barrier_wait(&x_full[index & 1], index >> 1 & 1);
    kernel.rescale(reinterpret_cast<const int32_t*>(sums + record.sum_bytes), exponents, lane % 4);
    for (int32_t slot = 0; slot < shape.slots; ++slot) {
      barrier_wait(&slot_full[warp][stage], phase);
      const uint8_t* tiles[MT];
#pragma unroll
      for (int m = 0; m < MT; ++m) tiles[m] = ring + stage * stage_bytes + m * shape.slot_bytes;
      kernel.slot(tiles, shape, x + slot * shape.slot_groups * NT * 1024,
                  sums + slot * shape.bias_steps() * NT * 256);
      if (++stage == a.stages) {
        stage = 0;
        phase ^= 1;
      }
      __syncwarp();
      if (lane == 0 && stream.remaining > 0) stream.issue(a, ring, slot_full[warp], warp * MT);
    }
    if (++chunk == shape.chunks) {
      chunk = 0;
      const int32_t tiles = static_cast<int32_t>(blockDim.x / 32) * MT;
      kernel.store(a.out + static_cast<size_t>(slice) * (NT * 8) * shape.padded_rows(), shape.padded_rows(),
                   block * tiles + warp * MT, exponents, a.factor);
      if (++block == a.row_blocks) {
        block = 0;
        ++slice;
      }
    }
    __syncthreads();
    if (threadIdx.x == 0 && loaded < n_chunks) load_x();
  }
}

/// Rows of a block: 16 tiles, or 12 where that keeps more of the multiprocessors busy.
inline int32_t block_tiles(const TileShape& shape) {
  const auto share = [&](int32_t tiles) {
    const int32_t units = (shape.tiles + tiles - 1) / tiles * shape.slices;
    return static_cast<double>(units) / ((units + 131) / 132 * 132);
  };
  return share(12) > share(16) ? 12 : 16;
}

template <TileKind K, int G, int NT>
void launch_tiles(LinearArguments arguments, cudaStream_t stream) {
  constexpr int MT = NT >= 4 ? 2 : 1;
  const TileShape& shape = arguments.shape;
  const int32_t tiles = block_tiles(shape), warps = tiles / MT, stage = MT * shape.slot_bytes;
  arguments.row_blocks = (shape.tiles + tiles - 1) / tiles;
  arguments.units = arguments.row_blocks * shape.slices;
  const int32_t fitting = kRingBytes / (warps * stage);
  arguments.stages = fitting < 2 ? 2 : fitting > kMaxStages ? kMaxStages : fitting;
  const int32_t bytes = 2 * ActivationChunk(shape, NT).bytes + warps * arguments.stages * stage;
  const auto blocks = static_cast<unsigned>(arguments.units < 132 ? arguments.units : 132);
  launch(linear_tiles<K, G, NT, MT>, {blocks, static_cast<unsigned>(warps * 32), static_cast<size_t>(bytes)},
         stream, arguments);
}

inline constexpr int32_t kMaxLinearShared = 220 * 1024;

template <TileKind K, int G>
struct LinearFamily {
  static void run(const LinearArguments& arguments, int32_t tiles, cudaStream_t stream) {
    if (tiles == 1) return launch_tiles<K, G, 1>(arguments, stream);
    if (tiles == 2) return launch_tiles<K, G, 2>(arguments, stream);
    if (tiles == 4) return launch_tiles<K, G, 4>(arguments, stream);
    return launch_tiles<K, G, 8>(arguments, stream);
  }

  static void prepare() {
    allow_shared(linear_tiles<K, G, 1, 1>);
    allow_shared(linear_tiles<K, G, 2, 1>);
    allow_shared(linear_tiles<K, G, 4, 2>);
    allow_shared(linear_tiles<K, G, 8, 2>);
  }

  static void allow_shared(void (*kernel)(LinearArguments)) {
    check(cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                               cudaFuncAttributeMaxDynamicSharedMemorySize, kMaxLinearShared),
          "shared memory");
  }
};

}  // namespace penstock::exec::cuda
