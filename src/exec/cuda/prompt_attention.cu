// Attention of prompts over the paged cache on warpgroup instructions: 64 rows a warpgroup, each one query
// and one of the q heads that share a kv head, over blocks of 64 keys from the first to the last that any of
// them sees. What a row does not see adds zero, so its bits do not depend on the rows beside it.
#include "exec/cuda/dense_code.h"
#include "exec/cuda/kv_code.h"
#include "exec/cuda/launch.h"
#include "exec/cuda/prompt.h"
#include "exec/cuda/wgmma_code.h"

namespace penstock::exec::cuda {
namespace {

constexpr int32_t kGroups = 2;      // warpgroups that attend; one more copies
constexpr int32_t kGroupRows = 64;  // of a warpgroup
constexpr int32_t kBlockThreads = (kGroups + 1) * 128;
constexpr float kLog2E = 1.44269504f;
static_assert(kGroups * kGroupRows == kQueryTokens);  // so a tile's rows are as many blocks as heads share

template <int D>
struct AttentionShape {
  static constexpr bool kKept = D <= 128;  // queries fit the registers
  static constexpr int32_t kStages = D == 256 ? 2 : 4;
  static constexpr int32_t kTileBytes = kBlockTokens * D * 2;
  static constexpr int32_t kQueryBytes = kKept ? 0 : kQueryTokens * D * 2;
  static constexpr int32_t kShared = kQueryBytes + kStages * 2 * kTileBytes + 1024;
  static constexpr uint32_t kEightBytes = D * 16;  // 8 tokens of a tile
};

/// What a block of threads attends for: rows from `first` on of the tile's tokens times the heads that share
/// `kv_head`, and the blocks of keys that any of them sees.
struct RowBlock {
  QueryTile tile;
  int32_t heads, kv_head, first, rows, slot, position, first_block, last_block;

  __device__ RowBlock(const PromptAttention& a, const QueryTile& own)
      : tile(own), heads(a.q_heads / a.pool.kv_heads) {
    kv_head = static_cast<int32_t>(blockIdx.x) / heads;
    first = (static_cast<int32_t>(blockIdx.x) - kv_head * heads) * kQueryTokens;
    rows = tile.n * heads;
    slot = a.pass.slots[tile.first];
    position = a.pass.positions[tile.first];
    first_block = first_seen(position_of(first), a.window) / kBlockTokens;
    last_block = position_of(first + kQueryTokens - 1) / kBlockTokens;
  }
  /// Token of the tile. Rows behind the last are the last token's.
  __device__ int32_t token_of(int32_t row) const { return min(row, rows - 1) / heads; }
  __device__ int32_t position_of(int32_t row) const { return position + token_of(row); }
};

/// A ring of blocks of keys and values in shared memory.
template <int D>
struct KeyRing {
  using Shape = AttentionShape<D>;
  uint8_t* data;
  uint64_t *keys_full, *values_full, *empty;
  int32_t stage = 0;
  uint32_t phase = 0;

  __device__ uint8_t* keys() const { return data + stage * 2 * Shape::kTileBytes; }
  __device__ uint8_t* values() const { return keys() + Shape::kTileBytes; }
  __device__ void next() {
    if (++stage < Shape::kStages) return;
    stage = 0;
    phase ^= 1;
  }
  /// One thread of each warpgroup.
  __device__ void release() const {
    if (threadIdx.x % 128 == 0) barrier_arrive(&empty[stage]);
  }
  /// For a block of keys that no row of the warpgroup sees.
  __device__ void skip() {
    barrier_wait(&values_full[stage], phase);
    release();
    next();
  }
};

/// One thread.
template <int D>
__device__ void copy_blocks(const PromptAttention& a, const RowBlock& rows, KeyRing<D> ring) {
  constexpr int32_t kBytes = AttentionShape<D>::kTileBytes;
  for (int32_t block = rows.first_block; block <= rows.last_block; ++block) {
    const int32_t index = block_of(a.tables, rows.slot, a.pool.group, block * kBlockTokens);
    const size_t at = kv_index(a.pool, index, rows.kv_head, 0, 0);
    barrier_wait(&ring.empty[ring.stage], ring.phase ^ 1);
    barrier_expect(&ring.keys_full[ring.stage], kBytes);
    bulk_copy(ring.keys(), static_cast<const half*>(a.pool.keys) + at, kBytes, &ring.keys_full[ring.stage]);
    barrier_expect(&ring.values_full[ring.stage], kBytes);
    bulk_copy(ring.values(), static_cast<const half*>(a.pool.values) + at, kBytes,
              &ring.values_full[ring.stage]);
    ring.next();
  }
}

/// The state of a warpgroup: a lane has rows g and g + 8 of its warp's 16.
template <int D>
struct QueryGroup {
  using Shape = AttentionShape<D>;
  uint32_t q[Shape::kKept ? D / 16 : 1][4];
  uint64_t staged = 0;  // descriptor of queries in shared memory
  float out[D / 2], s[32];
  uint32_t p[4][4];
  float most[2] = {-INFINITY, -INFINITY}, sum[2] = {0, 0};
  float scale;  // of scores in powers of two
  float softcap, unscaled;

  __device__ explicit QueryGroup(const PromptAttention& a)
      : scale(a.softcap > 0 ? kLog2E : a.scale * kLog2E), softcap(a.softcap), unscaled(a.scale) {
#pragma unroll
    for (float& v : out) v = 0;
#pragma unroll
    for (float& v : s) v = 0;
  }

  /// rows: of this lane. `to`: the warpgroup's part of shared memory.
  __device__ void read_queries(const half* const (&rows)[2], uint8_t* to) {
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4, warp = threadIdx.x / 32 % 4;
#pragma unroll
    for (int k = 0; k < D / 16; ++k)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const uint32_t value = *reinterpret_cast<const uint32_t*>(rows[i % 2] + k * 16 + i / 2 * 8 + t * 2);
        if constexpr (Shape::kKept)
          q[k][i] = value;
        else
          *reinterpret_cast<uint32_t*>(to + (warp * 2 + i % 2) * Shape::kEightBytes + k / 4 * 1024 + g * 128 +
                                       ((k % 4 * 2 + i / 2) ^ g) * 16 + t * 4) = value;
      }
    if constexpr (!Shape::kKept) {
      asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
      asm volatile("bar.sync %0, 128;" ::"r"(1 + threadIdx.x / 128) : "memory");
      staged = matrix_descriptor(shared_address(to), Shape::kEightBytes);
    }
  }

  /// Starts s = queries times keys.
  __device__ void start_scores(const uint8_t* keys) {
    const uint64_t b = matrix_descriptor(shared_address(keys), Shape::kEightBytes);
    wgmma_fence();
#pragma unroll
    for (int k = 0; k < D / 16; ++k) {
      const auto on = static_cast<uint64_t>(k / 4 * 64 + k % 4 * 2);
      if constexpr (Shape::kKept) {
        if (k == 0)
          wgmma_registers<64, false>(s, q[k], b + on);
        else
          wgmma_registers<64>(s, q[k], b + on);
      } else {
        if (k == 0)
          wgmma_shared<false>(s, staged + on, b + on);
        else
          wgmma_shared<true>(s, staged + on, b + on);
      }
    }
    wgmma_commit();
  }

  /// Starts out += weights times values.
  __device__ void start_values(const uint8_t* values) {
    const uint64_t b = matrix_descriptor(shared_address(values), Shape::kEightBytes);
    wgmma_fence();
#pragma unroll
    for (int k = 0; k < 4; ++k)
      wgmma_registers<D, true, true>(out, p[k], b + static_cast<uint64_t>(k * Shape::kEightBytes / 8));
    wgmma_commit();
  }

  /// Scores become weights under a new maximum; returns what earlier sums are worth. Keys begin at `at`; a
  /// row sees [first, last].
  __device__ float2 weigh(int32_t at, const int32_t (&first)[2], const int32_t (&last)[2], bool all_seen) {
    if (softcap > 0)
#pragma unroll
      for (float& v : s) v = softcap * tanhf(v * unscaled / softcap);
    if (!all_seen) {
      const int32_t key = at + static_cast<int32_t>(threadIdx.x % 4) * 2;
#pragma unroll
      for (int i = 0; i < 32; ++i) {
        const int32_t own = key + i / 4 * 8 + i % 2, r = i / 2 % 2;
        if (own < first[r] || own > last[r]) s[i] = -INFINITY;
      }
    }
    float factor[2];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      float now = most[r];
#pragma unroll
      for (int n = 0; n < 8; ++n) now = fmaxf(now, fmaxf(s[n * 4 + r * 2], s[n * 4 + r * 2 + 1]));
      now = fmaxf(now, __shfl_xor_sync(0xffffffffu, now, 1));
      now = fmaxf(now, __shfl_xor_sync(0xffffffffu, now, 2));
      const float base = now == -INFINITY ? 0.0f : now * -scale;
      factor[r] = power(now == -INFINITY ? -INFINITY : (most[r] - now) * scale);  // 1 where no more was seen
      most[r] = now;
      float total = 0;
#pragma unroll
      for (int n = 0; n < 8; ++n)
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          float& v = s[n * 4 + r * 2 + i];
          v = power(fmaf(v, scale, base));
          total += v;
        }
      sum[r] = fmaf(sum[r], factor[r], total);
    }
    return {factor[0], factor[1]};
  }

  __device__ static float power(float v) {
    float out;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(out) : "f"(v));
    return out;
  }

  /// Nothing that reads p or writes out may be on its way.
  __device__ void take_weights(float2 factor) {
#pragma unroll
    for (int i = 0; i < D / 2; ++i) out[i] *= i % 4 < 2 ? factor.x : factor.y;
#pragma unroll
    for (int k = 0; k < 4; ++k)
#pragma unroll
      for (int i = 0; i < 4; ++i)
        p[k][i] = bits_of(__floats2half2_rn(s[k * 8 + i * 2], s[k * 8 + i * 2 + 1]));
  }
};

/// A lane's two rows.
template <int D>
__device__ void store_rows(const PromptAttention& a, const RowBlock& rows, int32_t row,
                           const QueryGroup<D>& group) {
  const int32_t blocks = dense_col_blocks(a.out.cols), t = static_cast<int32_t>(threadIdx.x % 4);
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    float sum = group.sum[r];
    sum += __shfl_xor_sync(0xffffffffu, sum, 1);
    sum += __shfl_xor_sync(0xffffffffu, sum, 2);
    const int32_t own = row + r * 8, token = rows.token_of(own), head = own - token * rows.heads;
    if (own >= rows.rows) continue;
    const int32_t to = rows.tile.first + token;
    const float inverse = 1 / sum;
    const int32_t first = (rows.kv_head * rows.heads + head) * D;
#pragma unroll
    for (int d = 0; d < D / 8; ++d) {
      uint8_t* tile = dense_tile(a.out.data, blocks, to, first / kDenseCols + d / 8);
      *reinterpret_cast<half2*>(tile + dense_piece(to % kDenseTileRows, d % 8) + t * 4) =
          __floats2half2_rn(group.out[d * 4 + r * 2] * inverse, group.out[d * 4 + r * 2 + 1] * inverse);
    }
    // Values are float16, so their means need no exponent.
    if (first == 0 && t == 0) a.out.exponents[to] = 0;
  }
}

template <int D>
__device__ void attend_group(const PromptAttention& a, const RowBlock& rows, KeyRing<D> ring,
                             uint8_t* queries) {
  const int32_t start = rows.first + static_cast<int32_t>(threadIdx.x / 128) * kGroupRows;
  const int32_t row = start + static_cast<int32_t>(threadIdx.x / 32 % 4 * 16 + threadIdx.x % 32 / 4);
  const int32_t lowest = rows.position_of(start), highest = rows.position_of(start + kGroupRows - 1);
  const int32_t last[2] = {rows.position_of(row), rows.position_of(row + 8)};
  const int32_t first[2] = {first_seen(last[0], a.window), first_seen(last[1], a.window)};
  const int32_t first_block = first_seen(lowest, a.window) / kBlockTokens,
                last_block = highest / kBlockTokens;
  const int32_t all_from = first_seen(highest, a.window);
  const auto all_seen = [&](int32_t block) {
    return block * kBlockTokens >= all_from && block * kBlockTokens + kBlockTokens - 1 <= lowest;
  };
  QueryGroup<D> group(a);
  const half* at[2];
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int32_t own = min(row + r * 8, rows.rows - 1), token = rows.token_of(own);
    const int32_t head = rows.kv_head * rows.heads + own - token * rows.heads;
    at[r] =
        static_cast<const half*>(a.q) + (static_cast<size_t>(rows.tile.first + token) * a.q_heads + head) * D;
  }
  group.read_queries(at, queries);

  int32_t block = rows.first_block;
  for (; block < first_block; ++block) ring.skip();
  barrier_wait(&ring.keys_full[ring.stage], ring.phase);
  group.start_scores(ring.keys());
  wgmma_wait<0>();
  group.take_weights(group.weigh(block * kBlockTokens, first, last, all_seen(block)));
  for (; block < last_block; ++block) {
    const KeyRing<D> now = ring;
    ring.next();
    barrier_wait(&ring.keys_full[ring.stage], ring.phase);
    group.start_scores(ring.keys());
    barrier_wait(&now.values_full[now.stage], now.phase);
    group.start_values(now.values());
    wgmma_wait<1>();
    const float2 factor = group.weigh((block + 1) * kBlockTokens, first, last, all_seen(block + 1));
    wgmma_wait<0>();
    now.release();
    group.take_weights(factor);
  }
  barrier_wait(&ring.values_full[ring.stage], ring.phase);
  group.start_values(ring.values());
  wgmma_wait<0>();
  ring.release();
  ring.next();
  for (++block; block <= rows.last_block; ++block) ring.skip();
  store_rows(a, rows, row, group);
}

template <int D>
__global__ void __launch_bounds__(kBlockThreads, 1) attend_prompt(const PromptAttention a) {
  using Shape = AttentionShape<D>;
  extern __shared__ uint8_t shared[];
  __shared__ uint64_t barriers[3 * Shape::kStages];
  uint8_t* data = shared + ((1024 - (shared_address(shared) & 1023)) & 1023);
  const KeyRing<D> ring{data + Shape::kQueryBytes, barriers, barriers + Shape::kStages,
                        barriers + 2 * Shape::kStages};
  allow_next();
  if (threadIdx.x == 0) {
    for (int32_t i = 0; i < Shape::kStages; ++i) {
      barrier_init(&ring.keys_full[i]);
      barrier_init(&ring.values_full[i]);
      barrier_init(&ring.empty[i], kGroups);
    }
    barrier_fence();
  }
  __syncthreads();
  const RowBlock rows(a, a.tiles[gridDim.y - 1 - blockIdx.y]);
  await_previous();
  if (rows.first >= rows.rows) return;
  if (threadIdx.x >= kGroups * 128) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 24;");
    if (threadIdx.x == kGroups * 128) copy_blocks(a, rows, ring);
    return;
  }
  asm volatile("setmaxnreg.inc.sync.aligned.u32 240;");
  attend_group(a, rows, ring, data + threadIdx.x / 128 * (Shape::kQueryBytes / kGroups));
}

template <int D>
void launch_prompt(const PromptAttention& arguments, int32_t n_tiles, cudaStream_t stream) {
  using Shape = AttentionShape<D>;
  static const bool allowed = [] {
    check(cudaFuncSetAttribute(reinterpret_cast<const void*>(attend_prompt<D>),
                               cudaFuncAttributeMaxDynamicSharedMemorySize, Shape::kShared),
          "shared memory");
    return true;
  }();
  static_cast<void>(allowed);
  const dim3 grid(static_cast<unsigned>(arguments.q_heads), static_cast<unsigned>(n_tiles));
  launch(attend_prompt<D>, {grid, kBlockThreads, Shape::kShared}, stream, arguments);
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
