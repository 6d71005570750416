// Sampling parameters and the scalar reference of drawing one token. Every executor draws the same token for
// the same logits: argmax over (processed logit / temperature + Gumbel noise(seed, position, token id)).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace penstock::ops {

struct Bias {
  int32_t token = 0;
  float value = 0;
};

/// Applied in this order: bias, repetition penalty (prompt and generated tokens), presence and frequency
/// penalties (generated tokens), mask, temperature, top-k, top-p, min-p, draw.
struct SampleParams {
  float temperature = 0;  // 0 is argmax
  int32_t top_k = 0;      // 0 off
  float top_p = 1;        // 1 off
  float min_p = 0;        // 0 off
  float repetition_penalty = 1;
  float presence_penalty = 0;
  float frequency_penalty = 0;
  uint64_t seed = 0;
  int32_t first_bias = 0, n_biases = 0;  // range in SampleBatch::biases
};

struct TopToken {
  int32_t token = -1;
  float logprob = 0;
};

/// What a slot remembers of its tokens for the penalties.
struct TokenCounts {
  int32_t token = 0;
  int32_t generated = 0;  // times drawn
  bool in_prompt = false;
};

/// What changes a row's logits beside its parameters.
struct RowEdits {
  std::span<const Bias> biases;
  std::span<const TokenCounts> counts;  // may name a token once at most
  std::span<const uint32_t> mask;  // token t may be drawn if bit t % 32 of word t / 32 is set; empty: all may
};

struct Draw {
  int32_t token = -1;  // -1: no token that the mask allows has a finite logit
  float logprob = 0;   // natural log of softmax over the logits as the model gave them
  std::vector<TopToken> top;
};

/// Gumbel noise in float32 from a counter: the same for the same arguments on every executor.
float gumbel(uint64_t seed, int32_t position, int32_t token);

/// Throws Error(kInvalidRequest) naming the parameter that is out of range.
void check(const SampleParams& params);

/// Draws the token at `position`, which is one more than the position of the token whose logits these are.
/// `logits` [vocab] are the model's own. `n_top` alternatives with their logprobs; -1: no logprob either,
/// which saves a pass. Top-p shares are of what the mask and top-k left, min-p is relative to the largest of
/// it. Ties go to the smaller id, -infinity is never drawn. Throws Error(kInternal) when a logit is NaN or
/// +infinity or none is finite.
Draw sample(std::span<const float> logits, const SampleParams& params, const RowEdits& edits,
            int32_t position, int32_t n_top);

}  // namespace penstock::ops
