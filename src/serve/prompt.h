// From a client's request to token ids: template, guard against control tokens, encoding. Runs on a worker
// thread (a template may be slow, a text long). Knows no sampling.
#pragma once

#include <cstdint>
#include <vector>

#include "chat/request.h"
#include "pool/model.h"

namespace penstock::serve {

/// With tool_choice "none" the model is not told of the tools, so it does not call them.
bool shows_tools(const chat::Conversation& conversation);

struct EncodedPrompt {
  std::vector<int32_t> ids;
  bool in_reasoning = false;  // it ends inside the model's reasoning, which the answer goes on with
};

/// Each prompt of the request: one of a conversation, one or more of a completion.
/// Throws Error(kInvalidRequest) with the template's own words where it refuses the conversation.
std::vector<EncodedPrompt> encode_prompts(const chat::Request& request, const pool::Model& model);

}  // namespace penstock::serve
