// The one stream that answers a request: started, then of each choice its reasoning, text and tool calls as
// they come and its finish, then done; or a failure, which is then the last event. Plain data; the API
// surfaces encode it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/error.h"

namespace penstock::chat {

/// A token and what the model thought of it.
struct TokenLogprob {
  int32_t id = -1;
  std::string bytes;              // may be part of a UTF-8 character
  float logprob = 0;              // natural log
  std::vector<TokenLogprob> top;  // alternatives, likeliest first; their own `top` is empty
};

/// The request is accepted and runs: nothing about it can be refused any more.
struct Started {
  std::string model;  // the name it is served under
  std::string executor;
  int32_t choices = 1;
  int32_t prompt_tokens = 0;  // as of Usage
};

/// Text of one choice, valid UTF-8. With logprobs asked for, `logprobs` has the tokens that end in it.
struct TextDelta {
  int32_t choice = 0;
  std::string text;
  std::vector<TokenLogprob> logprobs;
};

/// What one choice thinks before it answers, valid UTF-8; logprobs as of TextDelta.
struct ReasoningDelta {
  int32_t choice = 0;
  std::string text;
  std::vector<TokenLogprob> logprobs;
};

/// Call number `call` of a choice, counted from 0, begins. One call is written at a time.
struct ToolCallStarted {
  int32_t choice = 0, call = 0;
  std::string id;  // unique
  bool is_own_id =
      false;  // that the model wrote; before others a surface puts its prefix ("call_", "toolu_")
  std::string name;
};

/// The next part of a call's arguments: all parts joined are one JSON object, if the call is finished.
struct ToolCallDelta {
  int32_t choice = 0, call = 0;
  std::string arguments;
};

/// The call is complete. One that max_tokens or a stop cut has no such event.
struct ToolCallFinished {
  int32_t choice = 0, call = 0;
};

/// kToolCalls: the answer ended by itself and has a complete call.
enum class FinishReason { kStop, kLength, kToolCalls };

struct Finished {
  int32_t choice = 0;
  FinishReason reason = FinishReason::kStop;
  std::string stop;  // the stop string that matched, empty if none did
};

struct Usage {
  int32_t prompt_tokens = 0;      // over all prompts, each counted once
  int32_t completion_tokens = 0;  // over all choices, up to the stop
  int32_t cached_tokens = 0;
  int32_t reasoning_tokens = 0;  // of the completion tokens
};

/// How the request was served.
struct Receipt {
  std::string executor;
  int32_t batch_width = 0;    // most sequences that shared a step with it
  int32_t max_tokens = 0;     // what the room in the context left of the client's max_tokens
  int32_t cached_tokens = 0;  // of the prompts
  int32_t preemptions = 0;    // times it gave its place to others and went on later, over all choices
  int32_t masks = 0;          // computed for constrained tokens, over all choices
  double mask_ms = 0;         // that they took, beside the model's own work
  double grammar_ms = 0;      // that compiling the grammar took
  int32_t drafted = 0;        // tokens that were proposed, over all choices
  int32_t accepted = 0;       // of them, drawn
  double queue_ms = 0, prefill_ms = 0, decode_ms = 0;
  std::string trace_id;  // of the client's W3C trace, if it sent one
};

/// All choices have finished; the last event.
struct Done {
  Usage usage;
  Receipt receipt;
};

/// The request failed, before or after Started; the last event.
struct Failure {
  base::Error error;
};

using Event = std::variant<Started, TextDelta, ReasoningDelta, ToolCallStarted, ToolCallDelta,
                           ToolCallFinished, Finished, Done, Failure>;

/// Receives the events of one request, in order, one call at a time, on threads of serve. Must not block.
class EventSink {
 public:
  virtual ~EventSink() = default;
  virtual void on_event(Event event) = 0;
};

std::string_view name(FinishReason reason);  // "stop", "length", "tool_calls"

}  // namespace penstock::chat
