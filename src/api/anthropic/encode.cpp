#include "api/anthropic/encode.h"

#include <utility>

namespace penstock::api::anthropic {
namespace {

using base::Json;

const char* stop_reason(const chat::Finished& finished) {
  switch (finished.reason) {
    case chat::FinishReason::kLength:
      return "max_tokens";
    case chat::FinishReason::kToolCalls:
      return "tool_use";
    case chat::FinishReason::kStop:
      break;
  }
  return finished.stop.empty() ? "end_turn" : "stop_sequence";
}

/// A call that ended before a stop string is what the client has to act on.
Json stop_sequence(const chat::Finished& finished) {
  const bool is_why = finished.reason == chat::FinishReason::kStop && !finished.stop.empty();
  return is_why ? Json(finished.stop) : Json();
}

}  // namespace

Json message_json(const std::string& id, const std::string& model, Json content,
                  const chat::Finished* finished, Json usage) {
  Json message = {{"id", id}, {"type", "message"}, {"role", "assistant"}, {"model", model}};
  message["content"] = std::move(content);
  message["stop_reason"] = finished == nullptr ? Json() : Json(stop_reason(*finished));
  message["stop_sequence"] = finished == nullptr ? Json() : stop_sequence(*finished);
  message["usage"] = std::move(usage);
  return message;
}

Json usage_json(const chat::Usage& usage) {
  return {{"input_tokens", usage.prompt_tokens - usage.cached_tokens},
          {"cache_creation_input_tokens", 0},
          {"cache_read_input_tokens", usage.cached_tokens},
          {"output_tokens", usage.completion_tokens},
          {"output_tokens_details", {{"thinking_tokens", usage.reasoning_tokens}}}};
}

Json message_start(const std::string& id, const chat::Started& started) {
  chat::Usage usage;
  usage.prompt_tokens = started.prompt_tokens;
  return {{"type", "message_start"},
          {"message", message_json(id, started.model, Json::array(), nullptr, usage_json(usage))}};
}

Json message_delta(const chat::Finished& finished, const chat::Usage& usage) {
  Json delta = {{"stop_reason", stop_reason(finished)}};
  delta["stop_sequence"] = stop_sequence(finished);
  return {{"type", "message_delta"}, {"delta", std::move(delta)}, {"usage", usage_json(usage)}};
}

}  // namespace penstock::api::anthropic
