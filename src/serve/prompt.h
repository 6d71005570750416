// From a client's request to token ids: template, guard against control tokens, encoding. Runs on a worker
// thread (a template may be slow, a text long). Knows no sampling.
#pragma once

#include <cstdint>
#include <vector>

#include "chat/request.h"
#include "text/codec.h"
#include "text/control_guard.h"

namespace penstock::serve {

/// Token ids of each prompt of the request: one of a conversation, one or more of a completion.
/// Throws Error(kInvalidRequest) with the template's own words where it refuses the conversation.
std::vector<std::vector<int32_t>> encode_prompts(const chat::Request& request, const text::Codec& codec,
                                                 const text::ControlGuard& guard);

}  // namespace penstock::serve
