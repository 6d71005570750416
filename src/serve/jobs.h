// From a chat request and a ready model to the engine's jobs. Pure apart from the seeds that a client left
// open.
#pragma once

#include <cstdint>
#include <vector>

#include "chat/request.h"
#include "engine/generator.h"
#include "pool/model.h"

namespace penstock::serve {

struct Prepared {
  struct Prompt {
    engine::Job job;
    std::vector<uint64_t> seeds;  // [n] of its answers
    bool in_reasoning = false;    // the answer begins inside the model's reasoning
  };
  std::vector<Prompt> prompts;  // in order
  int32_t prompt_tokens = 0;    // each prompt once
  int32_t max_tokens = 0;       // the largest that a job got
};

/// The request's own values, else the model's defaults, else the built-in ones; the seed is left alone.
ops::SampleParams sample_params(const chat::Sampling& asked, const pool::GenerationDefaults& defaults);

/// Checks what needs no prompt: sampling values against the vocabulary, tool_choice, the shape of the
/// conversation. Cheap enough for an io thread. Throws Error(kInvalidRequest) or Error(kUnsupported) with the
/// field.
void check(const chat::Request& request, const pool::Model& model);

/// Throws what the template and tokenizer throw, and Error(kContextLength) when a prompt leaves no room for
/// one token. A larger max_tokens is cut to the room left.
Prepared prepare(const chat::Request& request, const pool::Model& model);

}  // namespace penstock::serve
