// Chat events as OpenAI's response objects and stream chunks, for both completion endpoints. Pure: ids and
// clock come in.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "api/whole_choice.h"
#include "base/json.h"
#include "chat/event.h"

namespace penstock::api::openai {

/// What all chunks of one answer share.
struct AnswerHead {
  std::string id;       // "chatcmpl-..." or "cmpl-..."
  int64_t created = 0;  // unix seconds
  std::string model;
  bool include_usage = false;  // of a stream
};

/// One endpoint's shapes.
class Encoder {
 public:
  virtual ~Encoder() = default;
  /// Whether deltas carry more than their text.
  virtual bool logprobs() const = 0;
  virtual std::vector<base::Json> started(const AnswerHead& head, int32_t choices) const = 0;
  virtual base::Json delta(const AnswerHead& head, const chat::TextDelta& delta) = 0;
  /// Of chats only: raw completions have neither reasoning nor calls.
  virtual base::Json reasoning(const AnswerHead& head, const chat::ReasoningDelta& delta) const;
  virtual base::Json call_started(const AnswerHead& head, const chat::ToolCallStarted& started) const;
  virtual base::Json call_delta(const AnswerHead& head, const chat::ToolCallDelta& delta) const;
  virtual base::Json finished(const AnswerHead& head, const chat::Finished& finished) const = 0;
  virtual base::Json whole(const AnswerHead& head, const std::vector<WholeChoice>& choices) const = 0;
  virtual base::Json usage_chunk(const AnswerHead& head, const chat::Usage& usage) const = 0;
};

std::unique_ptr<Encoder> make_chat_encoder(bool logprobs);
std::unique_ptr<Encoder> make_completion_encoder(bool logprobs, int32_t choices);

base::Json usage_json(const chat::Usage& usage);

/// The `penstock` object: how the request was served.
base::Json receipt_json(const chat::Receipt& receipt);

/// The token as text; bytes that are no UTF-8 of their own are spelled "bytes:\xf0\x9f".
std::string token_text(const std::string& bytes);

/// {"id", "object", "created", "model", "choices"}.
base::Json envelope(const AnswerHead& head, const char* object);

}  // namespace penstock::api::openai
