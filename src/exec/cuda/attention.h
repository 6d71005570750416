// Attention of up to 64 tokens over the paged cache. The context is cut at multiples of 256 positions
// whatever the batch; each piece gives a partial softmax, and they are merged in order.
#pragma once

#include <cuda_runtime.h>

#include "exec/cuda/rows.h"

namespace penstock::exec::cuda {

struct AttendArguments {
  PassView pass;
  BlockTables tables;
  KvLayerPool pool;
  const float* q = nullptr;      // [tokens, q_heads, dim]
  float* pieces = nullptr;       // [tokens, q_heads, partitions, dim]: sums of exp2(score - max) * value
  float2* piece_sums = nullptr;  // [tokens, q_heads, partitions]: {max, sum}, in units of log2
  int32_t q_heads = 0;
  int32_t partitions = 0;  // of the buffers, and of the grid
  int32_t window = 0;
  float scale = 1, softcap = 0;
  float out_scale = 1;  // of the merged output
};

/// Whether the tensor-core kernel takes this layer; else the plain one does.
bool has_fast_attention(const KvLayerPool& pool, int32_t q_heads);

void attend(const AttendArguments& arguments, int32_t tokens, cudaStream_t stream);

/// Merges the pieces and prepares the output for the next multiplication.
void merge_pieces(const AttendArguments& arguments, const ActivationOut& out, int32_t tokens,
                  cudaStream_t stream);

}  // namespace penstock::exec::cuda
