// Attention of prompts over the paged cache on tensor cores: 128 queries of one head and sequence a block of
// threads, 16 a warp, over blocks of 64 keys from the first to the last that any of them sees. What a query
// does not see adds zero, so its bits do not depend on the queries beside it.
#include "exec/cuda/fragment_code.h"
#include "exec/cuda/kv_code.h"
#include "exec/cuda/launch.h"
#include "exec/cuda/prompt.h"

namespace penstock::exec::cuda {
namespace {

constexpr int32_t kWarps = 8;
constexpr int32_t kStages = 2;
constexpr float kLog2E = 1.44269504f;

__device__ float max_quad(float v) {
  v = fmaxf(v, __shfl_xor_sync(0xffffffffu, v, 1));
  return fmaxf(v, __shfl_xor_sync(0xffffffffu, v, 2));
}
__device__ float sum_quad(float v) {
  v += __shfl_xor_sync(0xffffffffu, v, 1);
  return v + __shfl_xor_sync(0xffffffffu, v, 2);
}

template <int D>
struct QueryWarp {
  static constexpr bool kKept = D <= 128;  // queries fit the registers
  uint32_t q[kKept ? D / 16 : 1][4];
  float acc[D / 8][4];
  float most[2], sum[2];
  const uint8_t* rows;  // of this warp

  __device__ explicit QueryWarp(const uint8_t* queries) : rows(queries) {
    if constexpr (kKept)
#pragma unroll
      for (int k = 0; k < D / 16; ++k) read_query(k, q[k]);
#pragma unroll
    for (auto& tile : acc) tile[0] = tile[1] = tile[2] = tile[3] = 0;
    most[0] = most[1] = -INFINITY;
    sum[0] = sum[1] = 0;
  }

  __device__ void read_query(int k, uint32_t (&fragment)[4]) const {
    const int lane = threadIdx.x % 32;
    load_matrices(piece_at<D>(rows, lane % 16, k * 2 + lane / 16), fragment);
  }

  __device__ void scores(const uint8_t* keys, float (&s)[8][4]) const {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (auto& tile : s) tile[0] = tile[1] = tile[2] = tile[3] = 0;
#pragma unroll
    for (int k = 0; k < D / 16; ++k) {
      uint32_t own[4];
      if constexpr (!kKept) read_query(k, own);
#pragma unroll
      for (int n = 0; n < 4; ++n) {
        uint32_t b[4];
        load_matrices(piece_at<D>(keys, n * 16 + lane / 16 * 8 + lane % 8, k * 2 + lane / 8 % 2), b);
        if constexpr (kKept) {
          mma(s[n * 2], q[k], b[0], b[1]);
          mma(s[n * 2 + 1], q[k], b[2], b[3]);
        } else {
          mma(s[n * 2], own, b[0], b[1]);
          mma(s[n * 2 + 1], own, b[2], b[3]);
        }
      }
    }
  }

  /// 64 keys and values whose first position is `at`; the queries of this lane are at positions[].
  __device__ void step(const uint8_t* keys, const uint8_t* values, int32_t at, const int32_t (&positions)[2],
                       const PromptAttention& a) {
    const int lane = threadIdx.x % 32, t = lane % 4;
    float s[8][4];
    scores(keys, s);
#pragma unroll
    for (int n = 0; n < 8; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int32_t key = at + n * 8 + t * 2 + i % 2, query = positions[i / 2];
        float v = s[n][i] * a.scale;
        if (a.softcap > 0) v = a.softcap * tanhf(v / a.softcap);
        s[n][i] = key <= query && key >= first_seen(query, a.window) ? v * kLog2E : -INFINITY;
      }
    float factor[2];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      float now = most[r];
#pragma unroll
      for (int n = 0; n < 8; ++n) now = fmaxf(now, fmaxf(s[n][r * 2], s[n][r * 2 + 1]));
      now = max_quad(now);
      const float base = now == -INFINITY ? 0.0f : now;
      factor[r] = exp2f(most[r] - base);
      most[r] = now;
      float total = 0;
#pragma unroll
      for (int n = 0; n < 8; ++n)
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          s[n][r * 2 + i] = exp2f(s[n][r * 2 + i] - base);
          total += s[n][r * 2 + i];
        }
      sum[r] = fmaf(sum[r], factor[r], sum_quad(total));
    }
#pragma unroll
    for (auto& tile : acc)
#pragma unroll
      for (int i = 0; i < 4; ++i) tile[i] *= factor[i / 2];
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      const uint32_t p[4] = {bits_of(__floats2half2_rn(s[k * 2][0], s[k * 2][1])),
                             bits_of(__floats2half2_rn(s[k * 2][2], s[k * 2][3])),
                             bits_of(__floats2half2_rn(s[k * 2 + 1][0], s[k * 2 + 1][1])),
                             bits_of(__floats2half2_rn(s[k * 2 + 1][2], s[k * 2 + 1][3]))};
#pragma unroll
      for (int d = 0; d < D / 16; ++d) {
        uint32_t b[4];
        load_transposed(piece_at<D>(values, k * 16 + lane / 8 % 2 * 8 + lane % 8, d * 2 + lane / 16), b);
        mma(acc[d * 2], p, b[0], b[1]);
        mma(acc[d * 2 + 1], p, b[2], b[3]);
      }
    }
  }

  /// out: of the warp's first query; a query's values are `stride` floats from the next one's.
  __device__ void store(float* out, size_t stride, int32_t queries) const {
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      if (g + r * 8 >= queries) continue;
      const float inverse = 1 / sum[r];
      float* row = out + static_cast<size_t>(g + r * 8) * stride;
#pragma unroll
      for (int d = 0; d < D / 8; ++d)
        *reinterpret_cast<float2*>(row + d * 8 + t * 2) = {acc[d][r * 2] * inverse,
                                                           acc[d][r * 2 + 1] * inverse};
    }
  }
};

/// Queries in float16, in the order that piece_at expects; those behind the last are zero.
template <int D>
__device__ void stage_queries(const PromptAttention& a, const QueryTile& tile, int32_t head, uint8_t* to) {
  for (int32_t i = static_cast<int32_t>(threadIdx.x); i < kQueryTokens * D / 4; i += kWarps * 32) {
    const int32_t query = i / (D / 4), d = i % (D / 4) * 4;
    float4 v = {0, 0, 0, 0};
    if (query < tile.n)
      v = *reinterpret_cast<const float4*>(
          a.q + (static_cast<size_t>(tile.first + query) * a.q_heads + head) * D + d);
    auto* at = to + query * D * 2 + (d / 8 ^ (query % 8)) * 16 + d % 8 * 2;
    *reinterpret_cast<uint2*>(at) = {bits_of(__halves2half2(to_half(v.x), to_half(v.y))),
                                     bits_of(__halves2half2(to_half(v.z), to_half(v.w)))};
  }
}

template <int D>
__global__ void __launch_bounds__(kWarps * 32) attend_prompt(const PromptAttention a) {
  extern __shared__ __align__(128) uint8_t shared[];
  __shared__ uint64_t full[kStages];
  constexpr int32_t kTileBytes = kBlockTokens * D * 2;
  allow_next();
  if (threadIdx.x == 0) {
    for (auto& barrier : full) barrier_init(&barrier);
    barrier_fence();
  }
  await_previous();
  const QueryTile tile = a.tiles[gridDim.y - 1 - blockIdx.y];
  const auto head = static_cast<int32_t>(blockIdx.x), kv_head = head / (a.q_heads / a.pool.kv_heads);
  const int32_t slot = a.pass.slots[tile.first], position = a.pass.positions[tile.first];
  const int32_t last = position + tile.n - 1;
  const int32_t first_block = first_seen(position, a.window) / kBlockTokens, last_block = last / kBlockTokens;
  uint8_t* ring = shared + kQueryTokens * D * 2;
  const auto issue = [&](int32_t block) {  // one thread
    const int32_t stage = (block - first_block) % kStages;
    const size_t index =
        kv_index(a.pool, block_of(a.tables, slot, a.pool.group, block * kBlockTokens), kv_head, 0, 0);
    uint8_t* to = ring + stage * 2 * kTileBytes;
    barrier_expect(&full[stage], 2 * kTileBytes);
    bulk_copy(to, static_cast<const half*>(a.pool.keys) + index, kTileBytes, &full[stage]);
    bulk_copy(to + kTileBytes, static_cast<const half*>(a.pool.values) + index, kTileBytes, &full[stage]);
  };
  if (threadIdx.x == 0)
    for (int32_t i = 0; i < kStages && first_block + i <= last_block; ++i) issue(first_block + i);
  stage_queries<D>(a, tile, head, shared);
  __syncthreads();

  const int32_t warp = static_cast<int32_t>(threadIdx.x / 32), lane = static_cast<int32_t>(threadIdx.x % 32);
  QueryWarp<D> state(shared + warp * 16 * D * 2);
  const int32_t own = position + warp * 16;  // of the warp's first query
  const int32_t positions[2] = {own + lane / 4, own + lane / 4 + 8};
  for (int32_t block = first_block; block <= last_block; ++block) {
    const int32_t stage = (block - first_block) % kStages, at = block * kBlockTokens;
    uint8_t* keys = ring + stage * 2 * kTileBytes;
    barrier_wait(&full[stage], static_cast<uint32_t>((block - first_block) / kStages & 1));
    if (block == last_block && last % kBlockTokens != kBlockTokens - 1) {
      // Rows behind the last token may hold anything: zero times anything must be zero.
      for (int32_t i = static_cast<int32_t>(threadIdx.x); i < kBlockTokens * D / 8; i += kWarps * 32)
        if (at + i / (D / 8) > last) reinterpret_cast<uint4*>(keys + kTileBytes)[i] = {0, 0, 0, 0};
      __syncthreads();
    }
    if (warp * 16 < tile.n && at <= own + 15) state.step(keys, keys + kTileBytes, at, positions, a);
    __syncthreads();
    if (threadIdx.x == 0 && block + kStages <= last_block) issue(block + kStages);
  }
  if (warp * 16 < tile.n)
    state.store(a.out + (static_cast<size_t>(tile.first + warp * 16) * a.q_heads + head) * D,
                static_cast<size_t>(a.q_heads) * D, tile.n - warp * 16);
}

template <int D>
void launch_prompt(const PromptAttention& arguments, int32_t n_tiles, cudaStream_t stream) {
  constexpr size_t kShared = size_t{kQueryTokens} * D * 2 + size_t{kStages} * 2 * kBlockTokens * D * 2;
  static const bool allowed = [] {
    check(cudaFuncSetAttribute(reinterpret_cast<const void*>(attend_prompt<D>),
                               cudaFuncAttributeMaxDynamicSharedMemorySize, kShared),
          "shared memory");
    return true;
  }();
  static_cast<void>(allowed);
  const dim3 grid(static_cast<unsigned>(arguments.q_heads), static_cast<unsigned>(n_tiles));
  launch(attend_prompt<D>, {grid, kWarps * 32, kShared}, stream, arguments);
}

}  // namespace

bool has_prompt_attention(const KvLayerPool& pool) {
  return pool.half_precision && (pool.dim == 64 || pool.dim == 128 || pool.dim == 256);
}

void prompt_attend(const PromptAttention& arguments, int32_t n_tiles, cudaStream_t stream) {
  if (arguments.pool.dim == 64) return launch_prompt<64>(arguments, n_tiles, stream);
  if (arguments.pool.dim == 128) return launch_prompt<128>(arguments, n_tiles, stream);
  launch_prompt<256>(arguments, n_tiles, stream);
}

}  // namespace penstock::exec::cuda
