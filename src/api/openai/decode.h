// What the two completion endpoints share in decoding. Pure functions; errors carry the field's path.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "api/reader.h"
#include "base/json.h"
#include "chat/request.h"

namespace penstock::api::openai {

/// A decoded body.
struct Decoded {
  chat::Request request;
  bool stream = false;
  bool include_usage = false;
  std::vector<std::string> ignored;  // names that nothing here knows
  std::vector<std::string> notes;    // what the client should know of how it was read
};

/// POST /v1/chat/completions.
Decoded decode_chat(const base::Json& body);

/// POST /v1/completions.
Decoded decode_completion(const base::Json& body);

/// Model, sampling, stop, n, stream and the other fields that both endpoints have.
void read_shared(const Reader& reader, Decoded& out);

/// True for a list of token ids that is not empty.
bool is_token_ids(const base::Json& value);

/// The messages of a chat. `text` parts only.
std::vector<chat::Message> decode_messages(const Reader& reader);

}  // namespace penstock::api::openai
