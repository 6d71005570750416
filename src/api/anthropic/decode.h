// Anthropic's request bodies as chat requests. Pure functions; errors carry the field's path, written as the
// official API does ("messages.0.content.1").
#pragma once

#include <string>
#include <vector>

#include "api/anthropic/signature.h"
#include "api/reader.h"
#include "base/json.h"
#include "chat/request.h"

namespace penstock::api::anthropic {

/// A decoded body.
struct Decoded {
  chat::Request request;
  bool stream = false;
  bool shows_thinking = true;        // false: thinking blocks of the answer have a signature only
  std::vector<std::string> ignored;  // names that nothing here knows
};

/// POST /v1/messages.
Decoded decode_message(const base::Json& body, const Signer& signer);

/// POST /v1/messages/count_tokens: the prompt only.
Decoded decode_count(const base::Json& body, const Signer& signer);

/// `system` and `messages`, one chat message for each turn and each result of a tool. Throws
/// Error(kUnsupported) for images and other blocks that no model here reads.
void read_messages(const Reader& reader, const Signer& signer, chat::Conversation& conversation);

/// `tools`, in the form in which templates know them, and `tool_choice`.
void read_tools(const Reader& reader, chat::Conversation& conversation);

}  // namespace penstock::api::anthropic
