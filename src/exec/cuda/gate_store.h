// What the multiplication of gates stores: activations for the matrix behind it. Device code.
#pragma once

#include "exec/cuda/activation_code.h"
#include "exec/cuda/gate_code.h"
#include "exec/cuda/slot_ring.h"

namespace penstock::exec::cuda {

/// A warp's tile: rows g are gates, rows g + 8 what they gate, so 8 columns of the activations. `sums`: of
/// these columns, [NT * 8] in shared memory. CT: column tiles of the activations.
template <ops::Activation A, int CT, int NT>
__device__ void gate_tile_as(const LinearArguments& a, const int32_t* exponents, int32_t tile,
                             const float (&acc)[NT][4], float* sums) {
  constexpr int32_t kTileBytes = activation_tile_bytes(CT);
  const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
  const TileShape& shape = a.gate.shape;
  const ActivationSlot record(shape, CT);
  const int32_t slot = divide_small(tile / 8, shape.slot_groups),
                within = tile / 8 - slot * shape.slot_groups;
  uint8_t* out = a.gate.data + static_cast<size_t>(slot) * record.bytes +
                 (within * 2 + tile % 8 / 4) * NT * kTileBytes + activation_piece(g, tile % 4) + t * 4;
  const bool shifted = shape.of.kind == TileKind::kFour && tile % 2 == 1;
  const float down = shifted ? 1.0f / 16 : 1.0f, up = shifted ? 16.0f : 1.0f;
#pragma unroll
  for (int n = 0; n < NT; ++n) {
    const int2 in = reinterpret_cast<const int2*>(exponents)[n * 4 + t],
               to = reinterpret_cast<const int2*>(exponents + kPassRows)[n * 4 + t];
    const float2 scale = {power_of_two(in.x) * a.factor, power_of_two(in.y) * a.factor};
    const float first = activate_fast<A>(acc[n][0] * scale.x) * (acc[n][2] * scale.x * power_of_two(-to.x));
    const float second = activate_fast<A>(acc[n][1] * scale.y) * (acc[n][3] * scale.y * power_of_two(-to.y));
    const uint32_t turned = transpose(bits_of(__floats2half2_rn(first, second)));
    const half2 x = __hmul2(*reinterpret_cast<const half2*>(&turned), __float2half2_rn(down));
    const float2 wide = __half22float2(x);
    const float sum = sum_lanes((wide.x + wide.y) * up, 4);
    if (t == 0) sums[n * 8 + g] = sum;
    if (n * 8 + g < a.rows) *reinterpret_cast<half2*>(out + n * kTileBytes) = x;
  }
}

template <int CT, int NT>
__device__ void gate_tile(const LinearArguments& a, const int32_t* exponents, int32_t tile,
                          const float (&acc)[NT][4], float* sums) {
  if (tile >= a.shape.tiles) return;
  switch (a.gate.activation) {
    case ops::Activation::kSilu:
      return gate_tile_as<ops::Activation::kSilu, CT, NT>(a, exponents, tile, acc, sums);
    case ops::Activation::kGelu:
      return gate_tile_as<ops::Activation::kGelu, CT, NT>(a, exponents, tile, acc, sums);
    default:
      return gate_tile_as<ops::Activation::kGeluTanh, CT, NT>(a, exponents, tile, acc, sums);
  }
}

/// Adds the sums of a block's tiles, [tile][NT * 8], over sum_cols() columns. `thread` of `threads`.
template <int CT>
__device__ void add_tile_sums(const LinearArguments& a, int32_t first_tile, const float* sums, int32_t thread,
                              int32_t threads) {
  const TileShape& shape = a.gate.shape;
  if (shape.of.kind == TileKind::kHalf) return;
  const ActivationSlot record(shape, CT);
  constexpr int NT = CT == 0 ? 1 : CT;
  const int32_t together = shape.sum_cols() / 8;  // 2 or 4
  const int32_t all = tiles_of_block(a.shape, first_tile) / together * NT * 8;
  for (int32_t i = thread; i < all; i += threads) {
    const int32_t row = i % (NT * 8), first = i / (NT * 8) * together;
    if (row >= a.rows) continue;
    float sum = 0;
    for (int32_t k = 0; k < together; ++k) sum += sums[(first + k) * NT * 8 + row];
    const int32_t tile = first_tile + first, slot = divide_small(tile / 8, shape.slot_groups);
    const int32_t j = (tile - slot * shape.slot_groups * 8) / together;
    write_sum(a.gate.data + static_cast<size_t>(slot) * record.bytes + record.fragment_bytes, CT, row, j,
              sum);
  }
}

/// Every warp that multiplies waits for the others.
__device__ inline void await_readers(int32_t threads) {
  asm volatile("bar.sync 1, %0;" ::"r"(threads) : "memory");
}

}  // namespace penstock::exec::cuda
