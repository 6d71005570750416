// Where keys and values lie: blocks of 64 tokens, [blocks][kv heads][64][dim]. In float16 with a dim that is
// a multiple of 64: [blocks][kv heads][8 times 8 tokens][dim / 64][8 tokens][64], the 16-byte pieces of each
// 128 bytes swapped by the token's number, as warpgroup instructions want them; no bank is met twice.
#pragma once

#include <cuda_fp16.h>

#include "exec/cuda/kv_layout.h"
#include "exec/cuda/rows.h"

namespace penstock::exec::cuda {

__device__ inline int32_t block_of(const BlockTables& tables, int32_t slot, int32_t group, int32_t position) {
  return tables.blocks[(static_cast<size_t>(slot) * tables.groups + group) * tables.per_group +
                       position / kBlockTokens];
}

/// Element index of (block, head, token of the block, d).
__device__ inline size_t kv_index(const KvLayerPool& pool, int32_t block, int32_t head, int32_t token,
                                  int32_t d) {
  const size_t first = (static_cast<size_t>(block) * pool.kv_heads + head) * kBlockTokens * pool.dim;
  if (!pool.half_precision || pool.dim % 64 != 0) return first + static_cast<size_t>(token * pool.dim + d);
  return first + static_cast<size_t>(token / 8 * 8 * pool.dim + d / 64 * 512 + token % 8 * 64 +
                                     (d % 64 ^ token % 8 * 8));
}

__device__ inline half to_half(float value) {
  return __float2half_rn(fminf(fmaxf(value, -65504.0f), 65504.0f));
}

/// The first position that a token at `position` sees.
__device__ inline int32_t first_seen(int32_t position, int32_t window) {
  return window > 0 && position >= window ? position - window + 1 : 0;
}

}  // namespace penstock::exec::cuda
