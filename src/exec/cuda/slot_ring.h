// The ring in shared memory through which one warp of the multiplication kernel passes tiles and activations
// to the others. Device code.
#pragma once

#include "exec/cuda/attention.h"
#include "exec/cuda/device_code.h"
#include "exec/cuda/tile_code.h"

namespace penstock::exec::cuda {

inline constexpr int32_t kMaxStages = 3;  // more delay the activations, which queue behind them
inline constexpr int32_t kAhead = 2;      // stages of weights asked for before the activations are there

struct LinearArguments {
  const uint8_t* weights = nullptr;
  const uint8_t* x = nullptr;
  const int32_t* exponents = nullptr;  // kExponents
  float* out = nullptr;
  TileShape shape;
  float factor = 1;
  int32_t rows = 0, row_blocks = 0, units = 0, stages = 0, stage_bytes = 0;
  GateStore gate;
  AttendArguments merge;  // pieces null: the activations are prepared
};

// More than half of a multiprocessor, or two blocks of one launch would share one while others idle.
inline constexpr int32_t kMinLinearShared = 116 * 1024, kMaxLinearShared = 220 * 1024;

/// Bytes of a place of the ring: warpgroup instructions read activations from multiples of 512.
inline int32_t stage_bytes_of(const TileShape& shape, int32_t column_tiles) {
  return (ActivationSlot(shape, column_tiles).bytes + shape.block_tiles * shape.slot_bytes + 511) / 512 * 512;
}
inline int32_t stages_of(const TileShape& shape, int32_t column_tiles) {
  const int32_t fitting = (kMaxLinearShared - 1024) / stage_bytes_of(shape, column_tiles);
  return fitting < kMaxStages ? fitting : kMaxStages;
}

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
  int32_t* exponents;  // there with the first slot
  uint64_t *full, *empty;
  int32_t stage_bytes, x_bytes;
};

/// A block of threads: its ring, and the units that are its own.
struct RingBlock {
  SlotRing ring;
  int32_t first, last;

  /// All threads. `exponents`: room for kExponents; `barriers`: 2 * kMaxStages of them; `readers`: warps that
  /// multiply.
  __device__ RingBlock(const LinearArguments& a, uint8_t* data, int32_t* exponents, uint64_t* barriers,
                       int32_t x_bytes, int32_t readers)
      : ring{data, exponents, barriers, barriers + kMaxStages, a.stage_bytes, x_bytes},
        first(static_cast<int32_t>(int64_t{a.units} * blockIdx.x / gridDim.x)),
        last(static_cast<int32_t>(int64_t{a.units} * (blockIdx.x + 1) / gridDim.x)) {
    if (threadIdx.x < kMaxStages) {
      barrier_init(&ring.full[threadIdx.x]);
      barrier_init(&ring.empty[threadIdx.x], static_cast<uint32_t>(readers));
      barrier_fence();
    }
    __syncthreads();
    allow_next();
  }
};

/// One lane copies the slots of its units in order.
__device__ inline void fill_ring(const LinearArguments& a, const RingBlock& own) {
  constexpr uint32_t kExponentBytes = kExponents * sizeof(int32_t);
  const SlotRing& ring = own.ring;
  const int32_t first = own.first, last = own.last;
  const TileShape& shape = a.shape;
  const int32_t slots = shape.slice_slots(), total = (last - first) * slots;
  const uint32_t x_bytes = a.merge.pieces != nullptr ? 0 : static_cast<uint32_t>(ring.x_bytes);
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
    barrier_expect(full, bytes + x_bytes + (issued == 0 ? kExponentBytes : 0));
    bulk_copy(ring.data + cursor.stage * ring.stage_bytes + ring.x_bytes, from, bytes, full);
    from += bytes;
    --left;
    ++issued;
    cursor.next(a.stages);
  };
  while (issued < min(min(kAhead, a.stages), total)) issue_weights();
  await_previous();
  bulk_copy(ring.exponents, a.exponents, kExponentBytes, &ring.full[0]);
  RingCursor x_cursor;
  int32_t x_block = first % a.row_blocks, x_slot = 0;
  const uint8_t* x = a.x + static_cast<size_t>(first / a.row_blocks) * slots * ring.x_bytes;
  for (int32_t i = 0; i < total; ++i) {
    if (i == issued) issue_weights();
    if (x_bytes == 0) continue;
    bulk_copy(ring.data + x_cursor.stage * ring.stage_bytes, x + static_cast<size_t>(x_slot) * ring.x_bytes,
              x_bytes, &ring.full[x_cursor.stage]);
    x_cursor.next(a.stages);
    if (++x_slot < slots) continue;
    x_slot = 0;
    if (++x_block < a.row_blocks) continue;
    x_block = 0;
    x += static_cast<size_t>(slots) * ring.x_bytes;
  }
}

}  // namespace penstock::exec::cuda
