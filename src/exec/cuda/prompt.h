// The work between the multiplications of a prompt pass, and its attention: as rows.h and attention.h, for
// any number of tokens.
#pragma once

#include <cuda_runtime.h>

#include "exec/cuda/dense.h"
#include "exec/cuda/rows.h"

namespace penstock::exec::cuda {

inline constexpr int32_t kQueryTokens = 128;  // of one sequence that a block of threads attends for

/// Tokens [first, first + n) of the pass: one sequence, positions one after another.
struct QueryTile {
  int32_t first = 0, n = 0;
};

/// Every row is written back. With a bound of a gate's outputs for rows of length 1, `gate_exponents` become
/// those of activations under it.
struct PromptNorm : ResidualNorm {
  float gate_bound = 0;
  int32_t* gate_exponents = nullptr;
  DenseActivations out;
};

struct PromptAttention {
  PassView pass;
  BlockTables tables;
  KvLayerPool pool;
  const QueryTile* tiles = nullptr;
  const void* q = nullptr;  // [tokens, q_heads, dim] in float16
  DenseActivations out;     // [tokens, q_heads * dim]
  int32_t q_heads = 0, window = 0;
  float scale = 1, softcap = 0;
};

void prompt_norm(const PromptNorm& arguments, int32_t tokens, cudaStream_t stream);
/// activation(gate) * up; `output` of the arguments is not used.
void prompt_gate(const GateArguments& arguments, const DenseActivations& out, int32_t tokens,
                 cudaStream_t stream);
/// rows [tokens, out.cols].
void prompt_pack(const float* rows, const DenseActivations& out, int32_t tokens, cudaStream_t stream);

bool has_prompt_attention(const KvLayerPool& pool);
void prompt_attend(const PromptAttention& arguments, int32_t n_tiles, cudaStream_t stream);

}  // namespace penstock::exec::cuda
