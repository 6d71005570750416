// Preparing activations for the tensor cores: float16 under an exponent for each row and chunk of 512
// columns, in fragment order, with the sums that undo the offset of the weight codes.
#pragma once

#include "exec/cuda/rows.h"
#include "exec/cuda/tile_code.h"

namespace penstock::exec::cuda {

/// x = value * 2^-exponent lies below 2^9, so that the sum of 64 fits float16.
__device__ inline int32_t exponent_of(float most) {
  if (most == 0) return kNoExponent;
  return most > 1e30f ? 60 : max(ilogbf(most) - 8, -30);
}

/// The exponent of a chunk from the maxima of its groups.
__device__ inline int32_t chunk_exponent(const float* maxima, int32_t groups) {
  float most = 0;
  for (int32_t i = 0; i < groups; ++i) most = fmaxf(most, maxima[i]);
  return exponent_of(most);
}

/// Sum j of a slot: columns j % 8 and j % 8 + 8 of a fragment.
__device__ inline void write_sum(uint8_t* sums, int32_t column_tiles, int32_t row, int32_t j, half2 sum) {
  uint8_t* at = sums + ((j / 8 * column_tiles + row / 8) * 32 + row % 8 * 4 + j % 8 / 2) * 8 + j % 2 * 2;
  *reinterpret_cast<half*>(at) = __low2half(sum);
  *reinterpret_cast<half*>(at + 4) = __high2half(sum);
}

/// One warp writes 64 columns of one row, the group `own` of a chunk: lane has columns 2 lane and 2 lane + 1.
/// No divisions: they would cost more than the rest.
__device__ inline void write_group(const ActivationOut& out, int32_t row, int32_t chunk, int32_t own,
                                   float2 value, int32_t exponent) {
  const TileShape& shape = out.shape;
  const int lane = threadIdx.x % 32;
  const ActivationSlot record(shape, out.column_tiles);
  int32_t slot = 0, within = own;
  for (; within >= shape.slot_groups; ++slot) within -= shape.slot_groups;
  uint8_t* data = out.data + static_cast<size_t>(chunk * shape.slots + slot) * record.bytes;
  const float scale = exponent == kNoExponent ? 0.0f : exp2f(static_cast<float>(-exponent));
  const half2 x = __floats2half2_rn(value.x * scale, value.y * scale);
  uint8_t* tile = data + ((within * 2 + lane / 16) * out.column_tiles + row / 8) * kActivationTileBytes;
  *reinterpret_cast<half2*>(tile + activation_piece(row % 8, lane % 16 / 4) + lane % 4 * 4) = x;
  if (within == 0 && lane == 0)
    reinterpret_cast<int32_t*>(data + record.bytes - out.column_tiles * 32)[row] = exponent;
  if (shape.of.kind == TileKind::kHalf) return;

  const int32_t width = shape.of.group / 2;  // lanes of a scale group: 8, 16 or 32
  const float2 wide = __half22float2(x);
  const float both = wide.x + wide.y;
  const float sum = sum_lanes(both, width);
  const float offset = sum_lanes(both * code_offset(shape.of.kind, lane * 2), width);
  if ((lane & (width - 1)) != 0) return;
  const int32_t scales = shape.slot_scales();
  const int32_t j = within * shape.scale_groups + (width == 32 ? 0 : width == 16 ? lane / 16 : lane / 8);
  reinterpret_cast<float*>(data + record.fragment_bytes)[j * out.column_tiles * 8 + row] = -offset;
  const half high = __float2half_rn(sum);
  uint8_t* sums = data + record.fragment_bytes + record.offset_bytes;
  write_sum(sums, out.column_tiles, row, j, __halves2half2(high, __float2half_rn(sum - __half2float(high))));
  if (j == scales - 1)  // the rest of the step must be finite
    for (int32_t k = scales; k < shape.bias_steps() * 8; ++k)
      write_sum(sums, out.column_tiles, row, k, __halves2half2(half(0), half(0)));
}

/// Exact mode: [rows, cols] in float32.
__device__ inline void write_float(const ActivationOut& out, int32_t row, int32_t col, float value) {
  reinterpret_cast<float*>(out.data)[static_cast<size_t>(row) * out.shape.cols + col] = value;
}

/// The factor that a row of sums still lacks. Whole warps.
__device__ inline float row_factor(const Partials& p, int32_t row) {
  if (p.squares == nullptr) return 1;
  const int32_t lane = threadIdx.x % 32;
  const float* squares = p.squares + row * kMaxSquares;
  float own = lane < p.n_squares ? squares[lane] : 0.0f;
  if (lane + 32 < p.n_squares) own += squares[lane + 32];
  return rsqrtf(sum_lanes(own) / static_cast<float>(p.columns) + p.eps);
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

/// The sum of slices, without row_factor. T: float, or float2 and float4 for columns from a multiple on.
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
