// Preparing activations for the tensor cores: float16 under an exponent for each row, in fragment order, with
// the sums that the biases of the weights are multiplied by.
#pragma once

#include "exec/cuda/rows.h"
#include "exec/cuda/tile_code.h"

namespace penstock::exec::cuda {

/// Of a prompt's row: x = value * 2^-exponent lies below 2^9.
__device__ inline int32_t exponent_of(float most) {
  if (most == 0) return kNoExponent;
  return most > 1e30f ? 60 : max(ilogbf(most) - 8, -30);
}

/// Of a generated token's row: x = value * 2^-exponent lies below 2^15, so that float16 has room for columns
/// that are far smaller than the largest.
__device__ inline int32_t row_exponent(float most) {
  return most > 1e30f ? 60 : most > 0 ? max(ilogbf(most) - 14, -30) : 0;
}

/// 2^exponent. Exponents lie in [-30, 60].
__device__ inline float power_of_two(int32_t exponent) {
  return __int_as_float((exponent + 127) << 23);
}

/// Sum j of a slot: columns j % 8 and j % 8 + 8 of a fragment, for the sum as float16 and what that lost.
__device__ inline void write_sum(uint8_t* sums, int32_t column_tiles, int32_t row, int32_t j, float sum) {
  const int32_t lane = column_tiles == 0 ? j / 8 * 4 : (j / 8 * column_tiles + row / 8) * 32 + row % 8 * 4;
  uint8_t* at = sums + (lane + j % 8 / 2) * 8 + j % 2 * 2;
  const half high = __float2half_rn(sum * kSumDown);
  *reinterpret_cast<half*>(at) = high;
  *reinterpret_cast<half*>(at + 4) = __float2half_rn(fmaf(sum, kSumDown, -__half2float(high)));
}

/// n / by for `by` from 1 to 4 and small n: a division would cost more than what needs it.
__device__ inline int32_t divide_small(int32_t n, int32_t by) {
  return by == 4 ? n >> 2 : by == 2 ? n >> 1 : by == 3 ? n * 43691 >> 17 : n;
}

/// One warp writes 64 columns of one row, times `scale`: lane has columns 2 lane and 2 lane + 1. `slot`: the
/// record of a slot alone, of which they are group `within`.
__device__ inline void write_columns(const ActivationOut& slot, int32_t row, int32_t within, float2 value,
                                     float scale) {
  const TileShape& shape = slot.shape;
  const int32_t column_tiles = slot.column_tiles;
  uint8_t* record = slot.data;
  const int lane = threadIdx.x % 32;
  half2 x = __floats2half2_rn(value.x * scale, value.y * scale);
  const bool shifted = shape.of.kind == TileKind::kFour && lane % 8 >= 4;
  if (shifted) x = __hmul2(x, __float2half2_rn(1.0f / 16));
  const int32_t tile = (within * 2 + lane / 16) * max(column_tiles, 1) + row / 8;
  uint8_t* at = record + tile * activation_tile_bytes(column_tiles) +
                activation_piece(row % 8, lane % 16 / 4) + lane % 4 * 4;
  *reinterpret_cast<half2*>(at) = x;
  if (shape.of.kind == TileKind::kHalf) return;

  const int32_t width = shape.sum_cols() / 2;  // lanes of a sum: 8 or 16
  const float2 wide = __half22float2(x);
  const float sum = sum_lanes((wide.x + wide.y) * (shifted ? 16.0f : 1.0f), width);
  if ((lane & (width - 1)) != 0) return;
  const int32_t j = within * (kGroupCols / 2 / width) + (width == 16 ? lane / 16 : lane / 8);
  uint8_t* sums = record + ActivationSlot(shape, column_tiles).fragment_bytes;
  write_sum(sums, column_tiles, row, j, sum);
  if (j == shape.slot_sums() - 1)  // the rest of the step must be finite
    for (int32_t k = j + 1; k < shape.bias_steps() * 8; ++k) write_sum(sums, column_tiles, row, k, 0);
}

/// The same; `group` counts the matrix's padded columns.
__device__ inline void write_group(const ActivationOut& out, int32_t row, int32_t group, float2 value,
                                   float scale) {
  const int32_t slot = divide_small(group, out.shape.slot_groups);
  ActivationOut own = out;
  own.data += static_cast<size_t>(slot) * ActivationSlot(out.shape, out.column_tiles).bytes;
  write_columns(own, row, group - slot * out.shape.slot_groups, value, scale);
}

/// Exact mode: [rows, cols] in float32.
__device__ inline void write_float(const ActivationOut& out, int32_t row, int32_t col, float value) {
  reinterpret_cast<float*>(out.data)[static_cast<size_t>(row) * out.shape.cols + col] = value;
}

template <class T, int SLICES>
__device__ inline T sum_slices(const float* at, size_t slice_floats) {
  T values[SLICES];
#pragma unroll
  for (int s = 0; s < SLICES; ++s) values[s] = *reinterpret_cast<const T*>(at + s * slice_floats);
  T sum = values[0];
#pragma unroll
  for (int s = 1; s < SLICES; ++s) {
    if constexpr (sizeof(T) == 4) {
      sum += values[s];
    } else {
      sum.x += values[s].x;
      sum.y += values[s].y;
    }
    if constexpr (sizeof(T) == 16) {
      sum.z += values[s].z;
      sum.w += values[s].w;
    }
  }
  return sum;
}

/// The sum of slices. T: float, or float2 and float4 for columns from a multiple on.
template <class T>
__device__ inline T read_sums(const Partials& p, int32_t row, int32_t column) {
  const float* at = p.data + static_cast<size_t>(row) * p.width + column;
  switch (p.slices) {
    case 1:
      return sum_slices<T, 1>(at, p.slice_floats);
    case 2:
      return sum_slices<T, 2>(at, p.slice_floats);
    case 3:
      return sum_slices<T, 3>(at, p.slice_floats);
    case 4:
      return sum_slices<T, 4>(at, p.slice_floats);
    case 6:
      return sum_slices<T, 6>(at, p.slice_floats);
    default:
      return sum_slices<T, 8>(at, p.slice_floats);
  }
}

}  // namespace penstock::exec::cuda
