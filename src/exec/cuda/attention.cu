// The plain attention kernel (any head size, both cache types) and the merge of partial softmaxes.
#include "exec/cuda/attention_code.h"
#include "exec/cuda/attention_kernels.h"
#include "exec/cuda/launch.h"

namespace penstock::exec::cuda {
namespace {

constexpr int32_t kThreads = 128;
constexpr float kLog2E = 1.44269504f;

__device__ float read_kv(const KvLayerPool& pool, const void* data, size_t at) {
  return pool.half_precision ? __half2float(static_cast<const half*>(data)[at])
                             : static_cast<const float*>(data)[at];
}

/// One block for each partition, q head and token.
__global__ void __launch_bounds__(kThreads) attend_plain(const AttendArguments a) {
  extern __shared__ float query[];  // [dim]
  __shared__ float weights[kPartitionTokens], scratch[kThreads / 32];
  allow_next();
  await_previous();
  const auto partition = static_cast<int32_t>(blockIdx.x), head = static_cast<int32_t>(blockIdx.y),
             token = static_cast<int32_t>(blockIdx.z);
  const int32_t slot = a.pass.slots[token], position = a.pass.positions[token];
  const int32_t first = max(first_seen(position, a.window), partition * kPartitionTokens);
  const int32_t last = min(position, (partition + 1) * kPartitionTokens - 1);
  if (slot < 0 || first > last) return;
  const int32_t dim = a.pool.dim, kv_head = head / (a.q_heads / a.pool.kv_heads);
  const size_t row = static_cast<size_t>(token) * a.q_heads + head;
  for (int32_t d = threadIdx.x; d < dim; d += kThreads) query[d] = a.q[row * dim + d];
  __syncthreads();
  float most = -INFINITY;
  for (int32_t p = first + static_cast<int32_t>(threadIdx.x); p <= last; p += kThreads) {
    const int32_t block = block_of(a.tables, slot, a.pool.group, p);
    float score = 0;
    for (int32_t d = 0; d < dim; ++d)
      score =
          fmaf(query[d], read_kv(a.pool, a.pool.keys, kv_index(a.pool, block, kv_head, p % kBlockTokens, d)),
               score);
    score *= a.scale;
    if (a.softcap > 0) score = a.softcap * tanhf(score / a.softcap);
    score *= kLog2E;
    weights[p - partition * kPartitionTokens] = score;
    most = fmaxf(most, score);
  }
  most = max_lanes(most);
  if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = most;
  __syncthreads();
  for (int32_t w = 0; w < kThreads / 32; ++w) most = fmaxf(most, scratch[w]);
  float sum = 0;
  for (int32_t p = first; p <= last; ++p) {
    const float weight = exp2f(weights[p - partition * kPartitionTokens] - most);
    sum += weight;
  }
  const size_t piece = row * a.partitions + partition;
  for (int32_t d = threadIdx.x; d < dim; d += kThreads) {
    float value = 0;
    for (int32_t p = first; p <= last; ++p) {
      const int32_t block = block_of(a.tables, slot, a.pool.group, p);
      const float weight = exp2f(weights[p - partition * kPartitionTokens] - most);
      value =
          fmaf(weight, read_kv(a.pool, a.pool.values, kv_index(a.pool, block, kv_head, p % kBlockTokens, d)),
               value);
    }
    a.pieces[piece * dim + d] = value;
  }
  if (threadIdx.x == 0) a.piece_sums[piece] = {most, sum};
}

/// Blocks of 8 warps, each warp a token and 64 columns of the output.
__global__ void __launch_bounds__(256) merge_groups(const AttendArguments a, const ActivationOut out) {
  allow_next();
  const auto token = static_cast<int32_t>(blockIdx.x);
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int32_t dim = a.pool.dim, width = a.q_heads * dim;
  const int32_t position = a.pass.positions[token];
  const PieceRange range(a, position);
  const bool padding = a.pass.slots[token] < 0;
  await_previous();
  const auto value = [&](int32_t column) {
    if (column >= width || padding) return 0.0f;
    const size_t row = (static_cast<size_t>(token) * a.q_heads + column / dim) * a.partitions;
    float most = -INFINITY, sum = 0, total = 0;
    for (int32_t p = range.first; p <= range.last; ++p) most = fmaxf(most, a.piece_sums[row + p].x);
    for (int32_t p = range.first; p <= range.last; ++p) {
      const float2 piece = a.piece_sums[row + p];
      const float weight = exp2f(piece.x - most);
      sum = fmaf(weight, piece.y, sum);
      total = fmaf(weight, a.pieces[(row + p) * dim + column % dim], total);
    }
    return total / sum;
  };
  if (out.shape.of.kind == TileKind::kFloat) {
    const auto column = static_cast<int32_t>(blockIdx.y * blockDim.x + threadIdx.x);
    if (column < width) write_float(out, token, column, value(column));
    return;
  }
  const int32_t group = static_cast<int32_t>(blockIdx.y) * 8 + warp, column = group * kGroupCols + lane * 2;
  if (group * kGroupCols >= out.shape.padded_cols()) return;
  float2 v = {0, 0};
  if (dim % kGroupCols != 0)
    v = {value(column), value(column + 1)};
  else if (column < width && !padding)
    v = merge_pair(a, token, column, range);
  write_group(out, token, group, v, a.out_scale);
}

}  // namespace

bool has_fast_attention(const KvLayerPool& pool, int32_t q_heads) {
  return pool.half_precision && (pool.dim == 64 || pool.dim == 128 || pool.dim == 256) &&
         q_heads / pool.kv_heads <= 8;
}

void attend(const AttendArguments& arguments, int32_t tokens, cudaStream_t stream) {
  if (has_fast_attention(arguments.pool, arguments.q_heads)) return attend_fast(arguments, tokens, stream);
  const dim3 grid(static_cast<unsigned>(arguments.partitions), static_cast<unsigned>(arguments.q_heads),
                  static_cast<unsigned>(tokens));
  launch(attend_plain, {grid, kThreads, static_cast<size_t>(arguments.pool.dim) * sizeof(float)}, stream,
         arguments);
}

void merge_pieces(const AttendArguments& arguments, const ActivationOut& out, int32_t tokens,
                  cudaStream_t stream) {
  const int32_t width = arguments.q_heads * arguments.pool.dim;
  const int32_t blocks = out.shape.of.kind == TileKind::kFloat
                             ? (width + 255) / 256
                             : (out.shape.padded_cols() / kGroupCols + 7) / 8;
  launch(merge_groups, {dim3(static_cast<unsigned>(tokens), static_cast<unsigned>(blocks)), 256}, stream,
         arguments, out);
}

}  // namespace penstock::exec::cuda
