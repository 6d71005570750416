// What a plan takes of the device's memory. Pure.
#pragma once

#include "exec/cuda/tile_shape.h"
#include "exec/executor.h"

namespace penstock::exec::cuda {

/// Bytes of the buffers of a pass.
struct PassMemory {
  size_t hidden = 0, q = 0, pieces = 0, piece_sums = 0, logits = 0;
  size_t activations = 0, sums = 0, ropes = 0;  // of each buffer; those that gates store take two more
  int32_t blocks_per_slot = 0, partitions = 0;
  int32_t rows = 0;  // that hidden, q and ropes have room for
};

/// Bytes of the buffers of a prompt pass; no tokens where the plan has none.
struct PromptMemory {
  int32_t tokens = 0;
  size_t inputs = 0, x = 0, exponents = 0, sums = 0, pending = 0;

  size_t total() const { return inputs + x + exponents + sums + pending; }
};

/// Of rows prepared for a matrix of this shape, 8 for each column tile.
size_t activation_bytes(const TileShape& shape, int32_t column_tiles);

PromptMemory prompt_memory(const models::Plan& plan, const Limits& limits);

PassMemory pass_memory(const models::Plan& plan, const ops::WeightTable& weights, const Limits& limits);

MemoryPlan plan_memory(const models::Plan& plan, const ops::WeightTable& weights, const Limits& limits);

}  // namespace penstock::exec::cuda
