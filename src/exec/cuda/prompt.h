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

/// As NormArguments, and every row is written back.
struct PromptNorm {
  float* hidden = nullptr;  // [tokens, width]
  int32_t width = 0;
  Partials pending;
  const float *bias = nullptr, *post_norm = nullptr, *norm = nullptr;
  float post_eps = 0, eps = 0;
  DenseActivations out;
};

struct PromptAttention {
  PassView pass;
  BlockTables tables;
  KvLayerPool pool;
  const QueryTile* tiles = nullptr;
  const float* q = nullptr;  // [tokens, q_heads, dim]
  float* out = nullptr;      // likewise
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
