// Decode attention on tensor cores: tokens are the rows of every fragment, the q heads of one kv head the
// columns. Each warp takes 16 of every 128 tokens of a partition through its own ring in shared memory.
#include <cuda_fp16.h>

#include "exec/cuda/attention_kernels.h"
#include "exec/cuda/device_code.h"
#include "exec/cuda/fragment_code.h"
#include "exec/cuda/kv_code.h"
#include "exec/cuda/launch.h"

namespace penstock::exec::cuda {
namespace {

constexpr int32_t kWarps = 8;
constexpr int32_t kTileTokens = 16;
constexpr int32_t kTiles = kPartitionTokens / (kWarps * kTileTokens);  // of a warp
constexpr float kLog2E = 1.44269504f;

/// Over the lanes that hold the same column.
__device__ float max_rows(float v) {
  for (int step = 4; step < 32; step *= 2) v = fmaxf(v, __shfl_xor_sync(0xffffffffu, v, step));
  return v;
}
__device__ float sum_rows(float v) {
  for (int step = 4; step < 32; step *= 2) v += __shfl_xor_sync(0xffffffffu, v, step);
  return v;
}

template <int D, int STAGES>
struct WarpState {
  uint32_t q[D / 16][2];
  float acc[D / 16][4];  // [dim, head]
  float most[2], sum[2];

  /// Columns are heads; those behind the last are zero.
  __device__ void read_queries(const float* queries, int heads) {
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
#pragma unroll
    for (int k = 0; k < D / 16; ++k)
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        float2 v = {0, 0};
        if (g < heads) v = *reinterpret_cast<const float2*>(queries + g * D + k * 16 + i * 8 + t * 2);
        q[k][i] = bits_of(__halves2half2(to_half(v.x), to_half(v.y)));
        acc[k][i * 2] = acc[k][i * 2 + 1] = 0;
      }
    most[0] = most[1] = -INFINITY;
    sum[0] = sum[1] = 0;
  }

  /// 16 keys and values whose first position is `at`; seen are [first, last].
  __device__ void tile(const uint8_t* keys, const uint8_t* values, int32_t at, int32_t first, int32_t last,
                       const AttendArguments& a) {
    const int lane = threadIdx.x % 32, g = lane / 4;
    float s[4] = {0, 0, 0, 0};
#pragma unroll
    for (int k = 0; k < D / 16; ++k) {
      uint32_t fragment[4];
      load_matrices(piece_at<D>(keys, lane % 16, k * 2 + lane / 16), fragment);
      mma(s, fragment, q[k][0], q[k][1]);
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int32_t position = at + g + i / 2 * 8;
      s[i] *= a.scale;
      if (a.softcap > 0) s[i] = a.softcap * tanhf(s[i] / a.softcap);
      s[i] = position >= first && position <= last ? s[i] * kLog2E : -INFINITY;
    }
    float p[4];
    float factor[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const float now = fmaxf(most[i], max_rows(fmaxf(s[i], s[i + 2])));
      const float base = now == -INFINITY ? 0.0f : now;
      factor[i] = exp2f(most[i] - base);
      most[i] = now;
      p[i] = exp2f(s[i] - base);
      p[i + 2] = exp2f(s[i + 2] - base);
      sum[i] = fmaf(sum[i], factor[i], sum_rows(p[i] + p[i + 2]));
    }
    const uint32_t b0 = transpose(bits_of(__floats2half2_rn(p[0], p[1])));
    const uint32_t b1 = transpose(bits_of(__floats2half2_rn(p[2], p[3])));
#pragma unroll
    for (int d = 0; d < D / 16; ++d) {
#pragma unroll
      for (int i = 0; i < 4; ++i) acc[d][i] *= factor[i % 2];
      uint32_t fragment[4];
      load_transposed(piece_at<D>(values, lane / 16 * 8 + lane % 8, d * 2 + lane / 8 % 2), fragment);
      mma(acc[d], fragment, b0, b1);
    }
  }
};

/// Rows of a tile that nobody sees may hold anything: zero times anything must be zero.
template <int D>
__device__ void clear_unseen(uint8_t* values, int32_t at, int32_t first, int32_t last) {
  for (int32_t i = threadIdx.x % 32; i < kTileTokens * D / 8; i += 32) {
    const int32_t token = i / D * 8 + i % 64 / 8;
    if (at + token < first || at + token > last) reinterpret_cast<uint4*>(values)[i] = {0, 0, 0, 0};
  }
  __syncwarp();
}

/// One block for each partition, kv head and token.
template <int D, int STAGES>
__global__ void __launch_bounds__(kWarps * 32) attend_tiles(const AttendArguments a) {
  extern __shared__ __align__(128) uint8_t shared[];
  __shared__ uint64_t full[kWarps][STAGES];
  __shared__ float2 stats[kWarps][8];
  constexpr int32_t kTileBytes = kTileTokens * D * 2;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  if (lane == 0)
    for (int i = 0; i < STAGES; ++i) barrier_init(&full[warp][i]);
  barrier_fence();
  __syncwarp();
  allow_next();
  const auto partition = static_cast<int32_t>(blockIdx.x), head = static_cast<int32_t>(blockIdx.y),
             token = static_cast<int32_t>(blockIdx.z);
  const int32_t slot = a.pass.slots[token], position = a.pass.positions[token];
  const int32_t first = max(first_seen(position, a.window), partition * kPartitionTokens);
  const int32_t last = min(position, (partition + 1) * kPartitionTokens - 1);
  if (slot < 0 || first > last) return await_previous();

  uint8_t* ring = shared + warp * STAGES * 2 * kTileBytes;
  const auto start_of = [&](int32_t i) {
    return partition * kPartitionTokens + i * kWarps * kTileTokens + warp * kTileTokens;
  };
  const auto seen = [&](int32_t i) { return start_of(i) <= last && start_of(i) + kTileTokens > first; };
  const auto issue = [&](int32_t i) {
    if (!seen(i) || lane != 0) return;
    const int32_t at = start_of(i);
    const size_t index =
        kv_index(a.pool, block_of(a.tables, slot, a.pool.group, at), head, at % kBlockTokens, 0);
    uint8_t* to = ring + i % STAGES * 2 * kTileBytes;
    barrier_expect(&full[warp][i % STAGES], 2 * kTileBytes);
    bulk_copy(to, static_cast<const half*>(a.pool.keys) + index, kTileBytes, &full[warp][i % STAGES]);
    bulk_copy(to + kTileBytes, static_cast<const half*>(a.pool.values) + index, kTileBytes,
              &full[warp][i % STAGES]);
  };
  // The pass's inputs, the tables and what earlier passes wrote were there before its first kernel: a pass
  // has no token of this sequence further back than this.
  const auto early = [&](int32_t i) { return start_of(i) + kTileTokens + kPassRows <= position; };
#pragma unroll
  for (int32_t i = 0; i < STAGES; ++i)
    if (early(i)) issue(i);
  await_previous();
#pragma unroll
  for (int32_t i = 0; i < STAGES; ++i)
    if (!early(i)) issue(i);

  const int32_t heads = a.q_heads / a.pool.kv_heads;
  const size_t row = static_cast<size_t>(token) * a.q_heads + head * heads;
  WarpState<D, STAGES> state;
  state.read_queries(a.q + row * D, heads);
  uint32_t parity = 0;  // one bit for each stage
  for (int32_t i = 0; i < kTiles; ++i) {
    const int32_t stage = i % STAGES, at = start_of(i);
    if (seen(i)) {
      uint8_t* tile = ring + stage * 2 * kTileBytes;
      barrier_wait(&full[warp][stage], parity >> stage & 1);
      parity ^= 1u << stage;
      if (at < first || at + kTileTokens - 1 > last) clear_unseen<D>(tile + kTileBytes, at, first, last);
      state.tile(tile, tile + kTileBytes, at, first, last, a);
      __syncwarp();
      asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    }
    if (i + STAGES < kTiles) issue(i + STAGES);
  }

  // The warps' sums, in order of the warps; the rings are free for them once every warp is done.
  const int g = lane / 4, t = lane % 4;
  if (g == 0) {
    stats[warp][t * 2] = {state.most[0], state.sum[0]};
    stats[warp][t * 2 + 1] = {state.most[1], state.sum[1]};
  }
  __syncthreads();
  auto* sums = reinterpret_cast<float*>(shared);  // [warp][head][D]
#pragma unroll
  for (int d = 0; d < D / 16; ++d)
#pragma unroll
    for (int i = 0; i < 4; ++i)
      sums[(warp * 8 + t * 2 + i % 2) * D + d * 16 + g + i / 2 * 8] = state.acc[d][i];
  __syncthreads();
  for (int32_t i = threadIdx.x; i < heads * D; i += kWarps * 32) {
    const int32_t h = i / D, d = i % D;
    float most = -INFINITY, sum = 0, total = 0;
    for (int w = 0; w < kWarps; ++w) most = fmaxf(most, stats[w][h].x);
    for (int w = 0; w < kWarps; ++w) {
      const float factor = exp2f(stats[w][h].x - most);
      sum = fmaf(factor, stats[w][h].y, sum);
      total = fmaf(factor, sums[(w * 8 + h) * D + d], total);
    }
    const size_t piece = (row + h) * a.partitions + partition;
    a.pieces[piece * D + d] = total;
    if (d == 0) a.piece_sums[piece] = {most, sum};
  }
}

template <int D, int STAGES>
void launch_tiles(const AttendArguments& arguments, int32_t tokens, cudaStream_t stream) {
  constexpr size_t kRing = size_t{kWarps} * STAGES * 2 * kTileTokens * D * 2;
  static_assert(kRing >= size_t{kWarps} * 8 * D * 4);
  static const bool allowed = [] {
    check(cudaFuncSetAttribute(reinterpret_cast<const void*>(attend_tiles<D, STAGES>),
                               cudaFuncAttributeMaxDynamicSharedMemorySize, kRing),
          "shared memory");
    return true;
  }();
  static_cast<void>(allowed);
  const dim3 grid(static_cast<unsigned>(arguments.partitions), static_cast<unsigned>(arguments.pool.kv_heads),
                  static_cast<unsigned>(tokens));
  launch(attend_tiles<D, STAGES>, {grid, kWarps * 32, kRing}, stream, arguments);
}

}  // namespace

/// Few blocks: each has all its tiles in flight. Many: more of them side by side.
void attend_fast(const AttendArguments& arguments, int32_t tokens, cudaStream_t stream) {
  const bool few = arguments.partitions * arguments.pool.kv_heads * tokens <= 132;
  if (arguments.pool.dim == 64) return launch_tiles<64, 2>(arguments, tokens, stream);
  if (arguments.pool.dim == 128 && few) return launch_tiles<128, 2>(arguments, tokens, stream);
  if (arguments.pool.dim == 128) return launch_tiles<128, 1>(arguments, tokens, stream);
  launch_tiles<256, 1>(arguments, tokens, stream);
}

}  // namespace penstock::exec::cuda
