// What a client asked for, in the one form that every API surface decodes to. Plain data: nothing here is
// checked against a model, that is serve's work.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/json.h"
#include "chat/constraint.h"
#include "chat/message.h"

namespace penstock::chat {

/// Absent values take the defaults of the model (pool::Model::defaults), then the built-in ones.
struct Sampling {
  std::optional<float> temperature, top_p, min_p, repetition_penalty;
  std::optional<int32_t> top_k;
  float presence_penalty = 0, frequency_penalty = 0;
  std::optional<uint64_t> seed;
  std::vector<std::pair<int32_t, float>> logit_bias;  // token id, value
};

/// A conversation, rendered by the model's chat template.
struct Conversation {
  std::vector<Message> messages;
  base::Json tools;                         // array in the client's order, or null
  bool parallel_tool_calls = true;          // false: the answer ends with its first call
  base::Json tool_choice;                   // "none", "auto", "required", {"type": "function", ...}, or null
  base::Json template_kwargs;               // object: variables of the template's own, or null
  std::optional<int64_t> reasoning_budget;  // most tokens of reasoning; kept, not enforced yet
  bool add_generation_prompt = true;
  bool continue_final_message = false;  // the answer goes on where the last message stops
};

/// Raw texts or token ids to continue, one generation each; no template.
struct Completion {
  std::vector<std::variant<std::string, std::vector<int32_t>>> prompts;
};

/// How urgent a request is: served first while there is not room for all, the most urgent first.
enum class Urgency : uint8_t { kRealtime, kBatch, kBackground };

/// What may propose tokens that are checked together; kServer: what the server's settings say.
enum class DraftSource : uint8_t { kServer, kAuto, kNgram, kSuffix, kModel };

/// How a request is served; nothing of it changes the answer.
struct Serving {
  Urgency urgency = Urgency::kRealtime;
  bool use_cache = true;   // begin with what was computed for earlier requests, and keep what is computed
  std::string cache_salt;  // requests share what was computed with those of the same salt only
  std::string session;     // a name under which what was computed can be parked and brought back; empty: none
  std::optional<int64_t> max_draft_tokens;  // 0: none; absent: the server's setting, which is the most
  DraftSource draft_source = DraftSource::kServer;
  std::optional<int64_t> timeout_ms;  // from when it was read; absent: the server's setting
};

/// Who asked, for logs, receipts and metrics; nothing of it changes the answer.
struct Origin {
  std::string surface;     // one of a few words: "openai_chat"
  std::string request_id;  // of the client, or made for it
  std::string trace_id;    // of its W3C trace, empty if it sent none
};

struct Request {
  std::string id;     // of the answer, by which it may be cancelled; empty: it cannot be
  std::string model;  // empty: the default one
  std::variant<Conversation, Completion> input;
  Sampling sampling;
  std::vector<std::string> stop;      // stop strings
  std::optional<int64_t> max_tokens;  // absent: the room that the context leaves
  int32_t n = 1;                      // generations per prompt
  bool logprobs = false;
  int32_t top_logprobs = 0;
  bool ignore_eos = false;                // but for the end that a constraint has
  std::optional<Constraint> constraint;   // absent: the answers are free
  Serving serving;
  Origin origin;
};

}  // namespace penstock::chat
