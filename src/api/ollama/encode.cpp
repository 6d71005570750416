#include "api/ollama/encode.h"

#include <utility>

namespace penstock::api::ollama {
namespace {

using base::Json;

Json calls_json(const std::vector<WholeCall>& calls) {
  Json list = Json::array();
  for (size_t i = 0; i < calls.size(); ++i) {
    const WholeCall& call = calls[i];
    Json arguments = Json::parse(call.arguments, nullptr, false);
    if (!arguments.is_object()) arguments = Json::object();
    list.push_back({{"id", call_id("call_", call.id, call.is_own_id)},
                    {"function", {{"name", call.name}, {"arguments", std::move(arguments)}}}});
  }
  return list;
}

Json logprob_json(const chat::TokenLogprob& entry) {
  Json bytes = Json::array();
  for (const unsigned char byte : entry.bytes) bytes.push_back(byte);
  return {{"token", entry.bytes}, {"logprob", entry.logprob}, {"bytes", std::move(bytes)}};
}

Json logprobs_json(const std::vector<chat::TokenLogprob>& entries) {
  Json list = Json::array();
  for (const chat::TokenLogprob& entry : entries) {
    Json json = logprob_json(entry);
    if (!entry.top.empty()) {
      json["top_logprobs"] = Json::array();
      for (const chat::TokenLogprob& top : entry.top) json["top_logprobs"].push_back(logprob_json(top));
    }
    list.push_back(std::move(json));
  }
  return list;
}

int64_t nanoseconds(double ms) {
  return static_cast<int64_t>(ms * 1e6);
}

}  // namespace

Json Encoder::object(const std::string& created_at, const Said& said, bool is_done) const {
  Json json = {{"model", model_}, {"created_at", created_at}};
  if (endpoint_ == Endpoint::kChat) {
    Json message = {{"role", "assistant"}, {"content", said.text}};
    if (!said.thinking.empty()) message["thinking"] = said.thinking;
    if (!said.calls.empty()) message["tool_calls"] = calls_json(said.calls);
    json["message"] = std::move(message);
  } else {
    json["response"] = said.text;
    if (!said.thinking.empty()) json["thinking"] = said.thinking;
  }
  json["done"] = is_done;
  if (said.has_logprobs) json["logprobs"] = logprobs_json(said.logprobs);
  return json;
}

Json Encoder::chunk(const std::string& created_at, const Said& said) const {
  return object(created_at, said, false);
}

Json Encoder::last(const std::string& created_at, const Said& said, const chat::Finished& finished,
                   const chat::Done& done, const Durations& durations) const {
  Json json = object(created_at, said, true);
  json["done_reason"] = finished.reason == chat::FinishReason::kLength ? "length" : "stop";
  if (!done.tokens.empty()) json["context"] = done.tokens;
  json["total_duration"] = durations.total.count();
  json["load_duration"] = durations.load.count();
  json["prompt_eval_count"] = done.usage.prompt_tokens;
  json["prompt_eval_duration"] = nanoseconds(durations.prefill_ms);
  json["eval_count"] = done.usage.completion_tokens;
  json["eval_duration"] = nanoseconds(durations.decode_ms);
  return json;
}

Json Encoder::idle(const std::string& created_at, const char* reason) const {
  Json json = object(created_at, {}, true);
  json["done_reason"] = reason;
  return json;
}

}  // namespace penstock::api::ollama
