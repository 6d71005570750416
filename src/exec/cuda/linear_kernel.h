// The kernel behind multiply(): one warp copies the tiles and activations of a block, slot by slot, through a
// ring in shared memory; each of the others multiplies its own tiles. Included by one source file for each
// kind of tile.
#pragma once

#include "exec/cuda/launch.h"
#include "exec/cuda/linear.h"
#include "exec/cuda/tile_code.h"

namespace penstock::exec::cuda {

inline constexpr int32_t kMaxWarps = 16;
inline constexpr int32_t kMaxStages = 4;
inline constexpr int32_t kAhead = 2;  // stages of weights asked for before the activations are there
// More than half of a multiprocessor, or two blocks of one launch would share one while others idle.
inline constexpr int32_t kMinLinearShared = 116 * 1024, kMaxLinearShared = 225 * 1024;

struct LinearArguments {
  const uint8_t* weights;
  const uint8_t* x;
  float* out;
  TileShape shape;
  float factor;
  int32_t rows, row_blocks, units, stages;
};

template <TileKind K, int G, int NT, int MT>
struct LinearKernel {
  static constexpr int kScaleGroups = K == TileKind::kHalf ? 0 : kGroupCols / G;  // in 64 columns
  static constexpr int kSteps = K == TileKind::kHalf ? 4 : 4 / kScaleGroups;  // of 16 columns under one scale
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

  /// One group of 64 columns. `offsets`: of its scale groups.
  __device__ void step(const uint8_t* const (&slot)[MT], int group, int slot_groups, const uint8_t* fragments,
                       const float* offsets) {
    const int lane = threadIdx.x % 32;
    uint32_t a[MT][4][4];
    float2 scales[MT][kScaleGroups == 0 ? 1 : kScaleGroups];  // of rows g and g + 8
#pragma unroll
    for (int m = 0; m < MT; ++m) {
      read_fragments<K>(slot[m] + group * kCodeBytes, lane, a[m]);
#pragma unroll
      for (int s = 0; s < kScaleGroups; ++s)
        scales[m][s] = __half22float2(reinterpret_cast<const half2*>(
            slot[m] + slot_groups * kCodeBytes)[(group * kScaleGroups + s) * 8 + lane / 4]);
    }
#pragma unroll
    for (int n = 0; n < NT; ++n) {
      uint4 b[2];
#pragma unroll
      for (int pair = 0; pair < 2; ++pair)
        b[pair] = reinterpret_cast<const uint4*>(fragments)[(pair * NT + n) * 32 + lane];
      const uint32_t own[4][2] = {{b[0].x, b[0].y}, {b[0].z, b[0].w}, {b[1].x, b[1].y}, {b[1].z, b[1].w}};
      if constexpr (K == TileKind::kHalf) {
#pragma unroll
        for (int k = 0; k < 4; ++k)
#pragma unroll
          for (int m = 0; m < MT; ++m) mma(acc[m][n], a[m][k], own[k][0], own[k][1]);
      } else {
#pragma unroll
        for (int s = 0; s < kScaleGroups; ++s) add_scaled(a, own, scales, offsets, n, s);
      }
    }
  }

  /// acc += scale * (codes times activations): the sum of one scale group begins with what the offsets of the
  /// codes add to it, negated.
  __device__ void add_scaled(const uint32_t (&a)[MT][4][4], const uint32_t (&b)[4][2],
                             const float2 (&scales)[MT][kScaleGroups == 0 ? 1 : kScaleGroups],
                             const float* offsets, int n, int s) {
    const float2 offset = reinterpret_cast<const float2*>(offsets)[(s * NT + n) * 4 + threadIdx.x % 4];
#pragma unroll
    for (int m = 0; m < MT; ++m) {
      float raw[4] = {offset.x, offset.y, offset.x, offset.y};
#pragma unroll
      for (int k = s * kSteps; k < (s + 1) * kSteps; ++k) mma(raw, a[m][k], b[k][0], b[k][1]);
      acc[m][n][0] = fmaf(raw[0], scales[m][s].x, acc[m][n][0]);
      acc[m][n][1] = fmaf(raw[1], scales[m][s].x, acc[m][n][1]);
      acc[m][n][2] = fmaf(raw[2], scales[m][s].y, acc[m][n][2]);
      acc[m][n][3] = fmaf(raw[3], scales[m][s].y, acc[m][n][3]);
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

  __device__ void slot(const uint8_t* const (&tiles)[MT], const TileShape& shape,
                       const ActivationSlot& record, const uint8_t* x) {
    const auto* offsets = reinterpret_cast<const float*>(x + record.fragment_bytes);
    if (shape.slot_groups == 4) {
#pragma unroll(NT >= 4 ? 1 : 4)
      for (int32_t group = 0; group < 4; ++group)
        step(tiles, group, 4, x + group * NT * 1024, offsets + group * kScaleGroups * NT * 8);
    } else {
      for (int32_t group = 0; group < shape.slot_groups; ++group)
        step(tiles, group, shape.slot_groups, x + group * NT * 1024, offsets + group * kScaleGroups * NT * 8);
    }
    if constexpr (K != TileKind::kHalf)
      add_biases(tiles, shape, x + record.fragment_bytes + record.offset_bytes);
  }

  /// out: [rows, width] of the slice.
  __device__ void store(float* out, int32_t rows, int32_t width, int32_t tile,
                        const int32_t (&exponents)[NT][2], float factor) {
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
#pragma unroll
    for (int n = 0; n < NT; ++n)
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        if (n * 8 + t * 2 + i >= rows) continue;
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

/// The places of a ring in turn, and the phase of their barriers.
struct RingCursor {
  int32_t stage = 0, phase = 0;

  __device__ void next(int32_t stages) {
    if (++stage < stages) return;
    stage = 0;
    phase ^= 1;
  }
};

/// Ring of slots: the activations of a slot, then the tiles of a block.
struct SlotRing {
  uint8_t* data;
  uint64_t *full, *empty;
  int32_t stage_bytes, x_bytes;
};

/// One lane copies the slots of units [first, last) in order.
__device__ inline void fill_ring(const LinearArguments& a, const SlotRing& ring, int32_t first,
                                 int32_t last) {
  const TileShape& shape = a.shape;
  const int32_t slots = shape.slice_slots(), total = (last - first) * slots;
  int32_t slice = first / a.row_blocks, block = first % a.row_blocks, left = 0, issued = 0;
  const uint8_t* from = nullptr;
  uint32_t bytes = 0;
  RingCursor cursor;
  const auto issue_weights = [&] {
    if (left == 0) {
      const int32_t first_tile = block * shape.block_tiles;
      from = a.weights + static_cast<size_t>(slice * shape.tiles + first_tile) * slots *
                             static_cast<size_t>(shape.slot_bytes);
      bytes = static_cast<uint32_t>(tiles_of_block(shape, first_tile) * shape.slot_bytes);
      left = slots;
      if (++block == a.row_blocks) {
        block = 0;
        ++slice;
      }
    }
    uint64_t* full = &ring.full[cursor.stage];
    if (issued >= a.stages) barrier_wait(&ring.empty[cursor.stage], cursor.phase ^ 1);
    barrier_expect(full, bytes + static_cast<uint32_t>(ring.x_bytes));
    bulk_copy(ring.data + cursor.stage * ring.stage_bytes + ring.x_bytes, from, bytes, full);
    from += bytes;
    --left;
    ++issued;
    cursor.next(a.stages);
  };
  while (issued < min(min(kAhead, a.stages), total)) issue_weights();
  await_previous();
  RingCursor x_cursor;
  int32_t x_block = first % a.row_blocks, x_slot = 0;
  const uint8_t* x = a.x + static_cast<size_t>(first / a.row_blocks) * slots * ring.x_bytes;
  for (int32_t i = 0; i < total; ++i) {
    if (i == issued) issue_weights();
    bulk_copy(ring.data + x_cursor.stage * ring.stage_bytes, x + static_cast<size_t>(x_slot) * ring.x_bytes,
              static_cast<uint32_t>(ring.x_bytes), &ring.full[x_cursor.stage]);
    x_cursor.next(a.stages);
    if (++x_slot < slots) continue;
    x_slot = 0;
    if (++x_block < a.row_blocks) continue;
    x_block = 0;
    x += static_cast<size_t>(slots) * ring.x_bytes;
  }
}

template <TileKind K, int G, int NT, int MT>
__global__ void __launch_bounds__(kMaxWarps * 32 / MT + 32, 1) linear_tiles(const LinearArguments a) {
  extern __shared__ __align__(128) uint8_t shared[];
  __shared__ uint64_t full[kMaxStages], empty[kMaxStages];
  const TileShape& shape = a.shape;
  const ActivationSlot record(shape, NT);
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, warps = static_cast<int>(blockDim.x / 32) - 1;
  const SlotRing ring{shared, full, empty, record.bytes + shape.block_tiles * shape.slot_bytes, record.bytes};
  const auto first = static_cast<int32_t>(int64_t{a.units} * blockIdx.x / gridDim.x);
  const auto last = static_cast<int32_t>(int64_t{a.units} * (blockIdx.x + 1) / gridDim.x);
  if (threadIdx.x < kMaxStages) {
    barrier_init(&full[threadIdx.x]);
    barrier_init(&empty[threadIdx.x], static_cast<uint32_t>(warps));
    barrier_fence();
  }
  __syncthreads();
  allow_next();
  if (warp == warps) {
    if (lane == 0) fill_ring(a, ring, first, last);
    return;
  }

  LinearKernel<K, G, NT, MT> kernel;
  int32_t exponents[NT][2];
  RingCursor cursor;
  int32_t slice = first / a.row_blocks, block = first % a.row_blocks;
  for (int32_t unit = first; unit < last; ++unit) {
    kernel.clear();
#pragma unroll
    for (auto& exponent : exponents) exponent[0] = exponent[1] = kNoExponent;
    for (int32_t chunk = 0; chunk < shape.chunks; ++chunk)
      for (int32_t slot = 0; slot < shape.slots; ++slot) {
        barrier_wait(&full[cursor.stage], static_cast<uint32_t>(cursor.phase));
        const uint8_t* x = shared + cursor.stage * ring.stage_bytes;
        if (slot == 0)
          kernel.rescale(reinterpret_cast<const int32_t*>(x + record.bytes - NT * 32), exponents, lane % 4);
        const uint8_t* tiles[MT];
#pragma unroll
        for (int m = 0; m < MT; ++m) tiles[m] = x + record.bytes + (warp * MT + m) * shape.slot_bytes;
        kernel.slot(tiles, shape, record, x);
        __syncwarp();
        if (lane == 0) barrier_arrive(&empty[cursor.stage]);
        cursor.next(a.stages);
      }
    kernel.store(a.out + static_cast<size_t>(slice) * (NT * 8) * shape.padded_rows(), a.rows,
                 shape.padded_rows(), block * shape.block_tiles + warp * MT, exponents, a.factor);
    if (++block == a.row_blocks) {
      block = 0;
      ++slice;
    }
  }
}

template <TileKind K, int G, int NT>
void launch_tiles(LinearArguments arguments, cudaStream_t stream) {
  constexpr int MT = NT >= 4 ? 2 : 1;
  const TileShape& shape = arguments.shape;
  const int32_t stage = ActivationSlot(shape, NT).bytes + shape.block_tiles * shape.slot_bytes;
  arguments.row_blocks = (shape.tiles + shape.block_tiles - 1) / shape.block_tiles;
  arguments.units = arguments.row_blocks * shape.slices;
  const int32_t fitting = kMaxLinearShared / stage;
  arguments.stages = fitting < kMaxStages ? fitting : kMaxStages;
  const int32_t bytes = arguments.stages * stage;
  const LaunchShape where{static_cast<unsigned>(arguments.units < 132 ? arguments.units : 132),
                          static_cast<unsigned>((shape.block_tiles / MT + 1) * 32),
                          static_cast<size_t>(bytes > kMinLinearShared ? bytes : kMinLinearShared)};
  launch(linear_tiles<K, G, NT, MT>, where, stream, arguments);
}

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
