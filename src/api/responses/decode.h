// The body of POST /v1/responses. Pure, but for the ids that items without one get; errors carry the field's
// path.
#pragma once

#include <string>
#include <vector>

#include "api/responses/tools.h"
#include "base/json.h"
#include "chat/request.h"

namespace penstock::api::responses {

struct Create {
  chat::Request request;            // all but the messages
  chat::Conversation conversation;  // its tools and the instructions; what was said comes behind them
  std::vector<base::Json> input;    // items in full
  std::string previous_id;
  bool stream = false, store = true, background = false;
  bool carries_reasoning = false;  // reasoning.encrypted_content was asked for
  ToolNames names;
  base::Json settings;               // what the response says of the request, in its order
  std::vector<std::string> ignored;  // fields, and tools, that do nothing
};

Create decode_create(const base::Json& body);

}  // namespace penstock::api::responses
