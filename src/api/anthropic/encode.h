// Message objects and the events of a stream around their content, in Anthropic's shapes. Pure functions.
#pragma once

#include <cstdint>
#include <string>

#include "base/json.h"
#include "chat/event.h"

namespace penstock::api::anthropic {

/// {"id", "type", "role", "model", "content", "stop_reason", "stop_sequence", "usage"}; the reason and the
/// sequence are null until `finished`.
base::Json message_json(const std::string& id, const std::string& model, base::Json content,
                        const chat::Finished* finished, base::Json usage);

/// Prompt tokens are `input_tokens` and, those that came from the prefix cache, `cache_read_input_tokens`.
base::Json usage_json(const chat::Usage& usage);

/// The event before the first block: what the prompt has, all of it as if nothing of it was cached.
base::Json message_start(const std::string& id, const chat::Started& started);

/// The event after the last block.
base::Json message_delta(const chat::Finished& finished, const chat::Usage& usage);

}  // namespace penstock::api::anthropic
