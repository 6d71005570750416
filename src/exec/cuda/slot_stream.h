// The order in which a warp of the multiplication kernel copies its tiles to shared memory. Device code.
#pragma once

#include "exec/cuda/device_code.h"
#include "exec/cuda/tile_shape.h"

namespace penstock::exec::cuda {

struct LinearArguments {
  const uint8_t* weights;
  const uint8_t* x;
  float* out;
  TileShape shape;
  float factor;
  int32_t row_blocks, units, stages;
};

/// The sequence of slots that a warp copies: one run of memory for each unit and tile. No divisions on the
/// way.
template <int MT>
struct SlotStream {
  const uint8_t* from[MT];
  int32_t slice, block, left;  // of the unit: slots not yet issued
  int32_t stage = 0, remaining;

  __device__ SlotStream(const LinearArguments& a, int32_t first, int32_t n_slots, int32_t tile_in_block)
      : slice(first / a.row_blocks), block(first % a.row_blocks), remaining(n_slots) {
    start(a, tile_in_block);
  }

  __device__ void start(const LinearArguments& a, int32_t tile_in_block) {
    const int32_t tiles = static_cast<int32_t>(blockDim.x / 32) * MT;
    left = a.shape.chunks * a.shape.slots;
#pragma unroll
    for (int m = 0; m < MT; ++m) {
      const int32_t tile = min(block * tiles + tile_in_block + m, a.shape.tiles - 1);
      from[m] = a.weights + (static_cast<size_t>(tile) * a.shape.slices + slice) * left * a.shape.slot_bytes;
    }
  }

  /// One lane.
  __device__ void issue(const LinearArguments& a, uint8_t* ring, uint64_t* full, int32_t tile_in_block) {
    const int32_t bytes = a.shape.slot_bytes;
    barrier_expect(&full[stage], static_cast<uint32_t>(MT * bytes));
#pragma unroll
    for (int m = 0; m < MT; ++m) {
      bulk_copy(ring + (stage * MT + m) * bytes, from[m], static_cast<uint32_t>(bytes), &full[stage]);
      from[m] += bytes;
    }
    if (++stage == a.stages) stage = 0;
    --remaining;
    if (--left > 0) return;
    if (++block == a.row_blocks) {
      block = 0;
      ++slice;
    }
    start(a, tile_in_block);
  }
};

}  // namespace penstock::exec::cuda
