// The kernel behind multiply(): one warp copies the tiles and activations of a block, slot by slot, through a
// ring in shared memory; each of the others multiplies its own tiles. Included by one source file for each
// kind of tile.
#pragma once

#include "exec/cuda/attention_code.h"
#include "exec/cuda/fragment_code.h"
#include "exec/cuda/gate_store.h"
#include "exec/cuda/launch.h"

namespace penstock::exec::cuda {

inline constexpr int32_t kMaxWarps = 16;
/// Biases as fragments for the sums of activations, rows g and g + 8: `step` takes 8 sums, of which two in
/// turn are those of one group of 64. `at`: of the slot, which has so many scale groups.
template <int G>
__device__ uint2 read_biases(const uint8_t* at, int32_t scales, int32_t step) {
  const int lane = threadIdx.x % 32, t = lane % 4;
  const auto* pairs = reinterpret_cast<const uint2*>(at) + lane / 4;
  if constexpr (G == 64) {
    if (t >= scales) return {0, 0};
    const uint2 pair = pairs[t / 2 * 8];
    const uint32_t pick = t % 2 == 0 ? 0x1010u : 0x3232u;
    return {__byte_perm(pair.x, 0, pick), __byte_perm(pair.y, 0, pick)};
  } else {
    const int32_t own = step * 4 + t;
    return own * 2 < scales ? pairs[own * 8] : uint2{0, 0};
  }
}
template <int G>
constexpr int32_t bias_steps_of(int32_t scales) {
  return (G == 64 ? scales * 2 + 7 : scales + 7) / 8;
}

/// CT: column tiles of the activations; of a single row (0) one is computed, whose rows are all that one.
template <TileKind K, int G, int CT, int MT>
struct LinearKernel {
  static constexpr int NT = CT == 0 ? 1 : CT;
  static constexpr int kTileBytes = activation_tile_bytes(CT);
  static constexpr int kScaleGroups = K == TileKind::kHalf ? 0 : kGroupCols / G;  // in 64 columns
  static constexpr int kSteps = K == TileKind::kHalf ? 4 : 4 / kScaleGroups;  // of 16 columns under one scale
  static constexpr int kCodeBytes = K == TileKind::kFour ? 512 : K == TileKind::kEight ? 1024 : 2048;

  // Column tiles side by side: their sums are independent, and a tensor-core step takes long.
  static constexpr int kColumns = (MT == 2 && NT == 8) || NT == 1 ? 1 : NT == 4 ? 4 : 2;

  float acc[MT][NT][4];

  __device__ void clear() {
#pragma unroll
    for (auto& tile : acc)
#pragma unroll
      for (auto& column : tile)
#pragma unroll
        for (float& value : column) value = 0;
  }

  /// One group of 64 columns. `fragments`: where this lane's row of a column tile begins.
  __device__ void step(const uint8_t* const (&slot)[MT], int group, int slot_groups,
                       const uint8_t* fragments) {
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
    for (int n = 0; n < NT; n += kColumns) {
      uint32_t b[kColumns][4][2];
#pragma unroll
      for (int c = 0; c < kColumns; ++c)
#pragma unroll
        for (int pair = 0; pair < 2; ++pair) {
          uint32_t own[4];
          load_matrices(fragments + (pair * NT + n + c) * kTileBytes, own);
          b[c][pair * 2][0] = own[0];
          b[c][pair * 2][1] = own[1];
          b[c][pair * 2 + 1][0] = own[2];
          b[c][pair * 2 + 1][1] = own[3];
        }
      if constexpr (K == TileKind::kHalf) {
#pragma unroll
        for (int k = 0; k < 4; ++k)
#pragma unroll
          for (int c = 0; c < kColumns; ++c)
#pragma unroll
            for (int m = 0; m < MT; ++m) mma(acc[m][n + c], a[m][k], b[c][k][0], b[c][k][1]);
      } else {
#pragma unroll
        for (int s = 0; s < kScaleGroups; ++s) add_scaled(a, b, scales, n, s);
      }
    }
  }

  /// acc += scale * (codes times activations). Column tiles from n on.
  __device__ void add_scaled(const uint32_t (&a)[MT][4][4], const uint32_t (&b)[kColumns][4][2],
                             const float2 (&scales)[MT][kScaleGroups == 0 ? 1 : kScaleGroups], int n, int s) {
    float raw[kColumns][MT][4];
#pragma unroll
    for (int k = s * kSteps; k < (s + 1) * kSteps; ++k)
#pragma unroll
      for (int c = 0; c < kColumns; ++c)
#pragma unroll
        for (int m = 0; m < MT; ++m) {
          if (k == s * kSteps)
            mma_from_zero(raw[c][m], a[m][k], b[c][k][0], b[c][k][1]);
          else
            mma(raw[c][m], a[m][k], b[c][k][0], b[c][k][1]);
        }
#pragma unroll
    for (int c = 0; c < kColumns; ++c)
#pragma unroll
      for (int m = 0; m < MT; ++m)
#pragma unroll
        for (int i = 0; i < 4; ++i)
          acc[m][n + c][i] = fmaf(raw[c][m][i], i < 2 ? scales[m][s].x : scales[m][s].y, acc[m][n + c][i]);
  }

  /// Adds the biases of a slot times the sums of the activations.
  __device__ void add_biases(const uint8_t* const (&slot)[MT], int32_t groups, const uint8_t* sums) {
    const int lane = threadIdx.x % 32;
    const int32_t scales = groups * kScaleGroups;
    for (int32_t i = 0; i < bias_steps_of<G>(scales); ++i) {
      uint32_t a[MT][4];
#pragma unroll
      for (int m = 0; m < MT; ++m) {
        const uint2 bias = read_biases<G>(slot[m] + groups * kCodeBytes + scales * 32, scales, i);
        a[m][0] = a[m][2] = bias.x;
        a[m][1] = a[m][3] = bias.y;
      }
#pragma unroll
      for (int n = 0; n < NT; ++n) {
        const uint2 b =
            reinterpret_cast<const uint2*>(sums)[CT == 0 ? i * 4 + lane % 4 : (i * NT + n) * 32 + lane];
#pragma unroll
        for (int m = 0; m < MT; ++m) mma(acc[m][n], a[m], b.x, b.y);
      }
    }
  }

  /// GROUPS: of the slot, known or (0) not.
  template <int GROUPS>
  __device__ void slot(const uint8_t* const (&tiles)[MT], const TileShape& shape,
                       const ActivationSlot& record, const uint8_t* x) {
    const int32_t groups = GROUPS > 0 ? GROUPS : shape.slot_groups;
    const int lane = threadIdx.x % 32;
    const uint8_t* fragments = x + activation_piece(CT == 0 ? 0 : lane % 8, lane / 8);
#pragma unroll(GROUPS == 0 || NT >= 4 ? 1 : NT == 2 ? 2 : 4)
    for (int32_t group = 0; group < groups; ++group)
      step(tiles, group, groups, fragments + group * NT * 2 * kTileBytes);
    if constexpr (K != TileKind::kHalf) add_biases(tiles, groups, x + record.fragment_bytes);
  }

  /// out: [rows, width] of the slice.
  __device__ void store(float* out, const LinearArguments& a, int32_t tile, const int32_t* exponents) {
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    const int32_t width = a.shape.padded_rows();
#pragma unroll
    for (int n = 0; n < NT; ++n)
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int32_t r = n * 8 + t * 2 + i;
        if (r >= a.rows) continue;
        const float scale = power_of_two(exponents[r]) * a.factor;
        float* row = out + static_cast<size_t>(r) * width + g;
#pragma unroll
        for (int m = 0; m < MT; ++m) {
          if ((tile + m) * kTileRows >= width) continue;
          row[(tile + m) * kTileRows] = acc[m][n][i] * scale;
          row[(tile + m) * kTileRows + 8] = acc[m][n][i + 2] * scale;
        }
      }
  }
};

/// The activations of a slice, all in the ring at once, become the merged pieces of attention.
template <int CT>
__device__ void merge_rows(const LinearArguments& a, int32_t slice, uint8_t* ring, int32_t warp,
                           int32_t warps) {
  const TileShape& shape = a.shape;
  const int32_t groups = shape.slice_slots() * shape.slot_groups, lane = threadIdx.x % 32;
  const int32_t width = a.merge.q_heads * a.merge.pool.dim;
  await_previous();
  for (int32_t job = warp; job < groups * a.rows; job += warps) {
    const int32_t row = job / groups, own = job - row * groups, slot = divide_small(own, shape.slot_groups);
    const int32_t column = (slice * groups + own) * kGroupCols + lane * 2;
    float2 v = {0, 0};
    if (column < width && a.merge.pass.slots[row] >= 0)
      v = merge_pair(a.merge, row, column, PieceRange(a.merge, a.merge.pass.positions[row]));
    write_columns({ring + slot * a.stage_bytes, nullptr, shape, CT}, row, own - slot * shape.slot_groups, v,
                  a.merge.out_scale);
  }
}

template <TileKind K, int G, int CT, int MT>
__global__ void __launch_bounds__(kMaxWarps / MT * 32 + 32, 1) linear_tiles(const LinearArguments a) {
  constexpr int NT = CT == 0 ? 1 : CT;
  extern __shared__ __align__(128) uint8_t shared[];
  __shared__ uint64_t barriers[2 * kMaxStages];
  __shared__ __align__(16) int32_t exponents[kExponents];
  __shared__ float sums[kMaxWarps * NT * 8];
  const TileShape& shape = a.shape;
  const ActivationSlot record(shape, CT);
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, warps = static_cast<int>(blockDim.x / 32) - 1;
  const RingBlock own(a, shared, exponents, barriers, record.bytes, warps);
  if (warp == warps) {
    if (lane == 0) fill_ring(a, own);
    return;
  }

  if constexpr (NT == 1)
    if (a.merge.pieces != nullptr) {
      merge_rows<CT>(a, own.first / a.row_blocks, shared, warp, warps);
      await_readers(warps * 32);
    }
  constexpr int kSlotGroups = most_slot_groups(K);
  LinearKernel<K, G, CT, MT> kernel;
  RingCursor cursor;
  int32_t slice = own.first / a.row_blocks, block = own.first % a.row_blocks;
  for (int32_t unit = own.first; unit < own.last; ++unit) {
    kernel.clear();
    for (int32_t slot = 0; slot < shape.slice_slots(); ++slot) {
      barrier_wait(&own.ring.full[cursor.stage], static_cast<uint32_t>(cursor.phase));
      const uint8_t* x = shared + cursor.stage * a.stage_bytes;
      const uint8_t* tiles[MT];
#pragma unroll
      for (int m = 0; m < MT; ++m) tiles[m] = x + record.bytes + (warp * MT + m) * shape.slot_bytes;
      if (shape.slot_groups == kSlotGroups)
        kernel.template slot<kSlotGroups>(tiles, shape, record, x);
      else
        kernel.template slot<0>(tiles, shape, record, x);
      __syncwarp();
      if (lane == 0) barrier_arrive(&own.ring.empty[cursor.stage]);
      cursor.next(a.stages);
    }
    const int32_t first_tile = block * shape.block_tiles;
    if (a.gate.data != nullptr) {
#pragma unroll
      for (int m = 0; m < MT; ++m)
        gate_tile<CT>(a, exponents, first_tile + warp * MT + m, kernel.acc[m],
                      sums + (warp * MT + m) * NT * 8);
      await_readers(warps * 32);
      add_tile_sums<CT>(a, first_tile, sums, static_cast<int32_t>(threadIdx.x), warps * 32);
      await_readers(warps * 32);
    } else {
      kernel.store(a.out + static_cast<size_t>(slice) * (NT * 8) * shape.padded_rows(), a,
                   first_tile + warp * MT, exponents);
    }
    if (++block == a.row_blocks) {
      block = 0;
      ++slice;
    }
  }
}

}  // namespace penstock::exec::cuda
