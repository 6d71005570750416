// Merging the partial softmaxes of a context. Device code.
#pragma once

#include "exec/cuda/activation_code.h"
#include "exec/cuda/attention.h"
#include "exec/cuda/kv_code.h"

namespace penstock::exec::cuda {

/// Pieces that are asked for before their weights are known.
inline constexpr int32_t kEarlyPieces = 6;

/// The pieces of a token.
struct PieceRange {
  int32_t first, last;

  __device__ PieceRange(const AttendArguments& a, int32_t position)
      : first(first_seen(position, a.window) / kPartitionTokens), last(position / kPartitionTokens) {}
};

/// Columns `column` and the next one of a token's output, its pieces merged in order. A whole warp, whose
/// columns lie in one head: lanes share the weights of the pieces.
__device__ inline float2 merge_pair(const AttendArguments& a, int32_t token, int32_t column,
                                    const PieceRange& range) {
  const int32_t dim = a.pool.dim, lane = static_cast<int32_t>(threadIdx.x % 32);
  const int32_t first = range.first, last = range.last;
  const size_t row = (static_cast<size_t>(token) * a.q_heads + column / dim) * a.partitions;
  const float* pieces = a.pieces + row * dim + column % dim;
  const auto piece = [&](int32_t p) {
    return *reinterpret_cast<const float2*>(pieces + static_cast<size_t>(p) * dim);
  };
  float2 early[kEarlyPieces];
#pragma unroll
  for (int32_t i = 0; i < kEarlyPieces; ++i) early[i] = piece(min(first + i, last));
  float most = -INFINITY, sum = 0;
  for (int32_t p = first + lane; p <= last; p += 32) most = fmaxf(most, a.piece_sums[row + p].x);
  most = max_lanes(most);
  float2 total = {0, 0};
  for (int32_t p0 = first; p0 <= last; p0 += 32) {
    const int32_t n = min(32, last - p0 + 1);
    float2 own = {0, 0};
    if (lane < n) {
      own = a.piece_sums[row + p0 + lane];
      own.x = exp2f(own.x - most);
    }
    const auto add = [&](int32_t i, float2 value) {
      const float weight = __shfl_sync(0xffffffffu, own.x, i);
      sum = fmaf(weight, __shfl_sync(0xffffffffu, own.y, i), sum);
      total.x = fmaf(weight, value.x, total.x);
      total.y = fmaf(weight, value.y, total.y);
    };
    int32_t i = 0;
    if (p0 == first)
#pragma unroll
      for (; i < kEarlyPieces; ++i)
        if (i < n) add(i, early[i]);
#pragma unroll 8
    for (; i < n; ++i) add(i, piece(p0 + i));
  }
  return {total.x / sum, total.y / sum};
}

}  // namespace penstock::exec::cuda
