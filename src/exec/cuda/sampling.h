// Drawing tokens on the device: argmax of the tempered logits plus the noise of ops/sample.h over what top-k,
// top-p and min-p keep, after penalties, with the same bits as on every executor. Biases and alternatives: on
// the host.
#pragma once

#include <cstdint>

#include <cuda_runtime.h>

#include "exec/cuda/linear.h"
#include "ops/sample.h"

namespace penstock::exec::cuda {

struct DrawRow {
  int32_t logit_row = 0, slot = 0, position = 0;
  float temperature = 0;
  int32_t top_k = 0;                // 0 off
  float top_p = 1;                  // 1 off
  float least = -__builtin_inff();  // tempered logits below it are not drawn: the logarithm of min-p
  float repetition = 1, presence = 0, frequency = 0;
  uint64_t seed = 0;

  bool edits() const { return repetition != 1 || presence != 0 || frequency != 0; }
  bool cuts() const { return temperature > 0 && (top_k > 0 || top_p < 1); }
};

DrawRow draw_row(const ops::SampleParams& params, int32_t logit_row, int32_t slot, int32_t position);

/// The last member of a kept set, as ops::Cut.
struct DrawCut {
  float value = -3.402823466e38f;
  int32_t token = INT32_MAX;

  __host__ __device__ bool keeps(float v, int32_t id) const {
    return v > value || (v == value && id <= token);
  }
};

struct DrawResult {
  int32_t token = -1;  // -1: no finite logit, or a NaN
  float logprob = 0;
};

/// Of each token of the vocabulary, for a slot: how often it was drawn, and this bit if the prompt has it.
inline constexpr uint32_t kInPrompt = 1u << 31;

/// Scratch of the draws: of `blocks_of(vocab)` entries for each row.
struct DrawBlock {
  float most = 0;
  int32_t token = 0, bad = 0;
  float sum = 0, key = 0;
  int32_t key_token = 0;
};

constexpr int32_t kDrawCols = 1024;
constexpr int32_t draw_blocks(int32_t vocab) {
  return (vocab + kDrawCols - 1) / kDrawCols;
}

/// logits [rows, vocab] = softcap(sums of slices).
void finish_logits(const Partials& sums, float softcap, float* logits, int32_t rows, int32_t vocab,
                   cudaStream_t stream);

struct DrawArguments {
  const DrawRow* rows = nullptr;
  float* logits = nullptr;         // [.., vocab]; those of rows with penalties are changed
  DrawBlock* blocks = nullptr;     // [rows, draw_blocks]
  DrawResult* results = nullptr;   // [rows]
  int32_t* last_tokens = nullptr;  // [slots]
  uint32_t* counts = nullptr;      // [slots][vocab]
  bool edits = false;              // some row has penalties
  DrawCut* cuts = nullptr;         // [rows]; null where no row cuts
  int32_t vocab = 0;
  int32_t drawable = 0;  // of the vocab, from the first: the rest is never drawn
};

inline constexpr int32_t kMostCutVocab = 262144;  // sums of more could pass 32 bits

void draw(const DrawArguments& arguments, int32_t rows, cudaStream_t stream);

/// The cuts of the rows, of what draw() has scanned.
void cut_draws(const DrawArguments& arguments, int32_t rows, cudaStream_t stream);

/// Tokens that the host drew: last_tokens[slots[i]] = tokens[i], and counted, where it is not negative.
struct DrawnTokens {
  const int32_t *slots = nullptr, *tokens = nullptr;
  int32_t n = 0;
  int32_t* last_tokens = nullptr;
  uint32_t* counts = nullptr;  // [slots][vocab]
  int32_t vocab = 0;
};
void set_last_tokens(const DrawnTokens& drawn, cudaStream_t stream);

struct SlotCounts {
  uint32_t* counts = nullptr;  // [vocab]
  int32_t vocab = 0;
};
struct BeginTokens {
  const int32_t* tokens = nullptr;  // [n_prompt + n_generated]
  int32_t n_prompt = 0, n_generated = 0;
};
/// The counts become those of a sequence that begins with the prompt and has drawn the rest.
void reset_counts(const SlotCounts& slot, const BeginTokens& begin, cudaStream_t stream);

}  // namespace penstock::exec::cuda
