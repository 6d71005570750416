#include "api/openai/encode.h"

namespace penstock::api::openai {
namespace {

using base::Json;

Json entry_json(const chat::TokenLogprob& entry) {
  Json bytes = Json::array();
  for (const unsigned char byte : entry.bytes) bytes.push_back(byte);
  Json json = {{"token", token_text(entry.bytes)}, {"logprob", entry.logprob}};
  json["bytes"] = std::move(bytes);
  return json;
}

Json logprobs_json(const std::vector<chat::TokenLogprob>& entries) {
  Json content = Json::array();
  for (const chat::TokenLogprob& entry : entries) {
    Json json = entry_json(entry);
    json["top_logprobs"] = Json::array();
    for (const chat::TokenLogprob& top : entry.top) json["top_logprobs"].push_back(entry_json(top));
    content.push_back(std::move(json));
  }
  Json out = Json::object();
  out["content"] = std::move(content);
  out["refusal"] = nullptr;
  return out;
}

class ChatEncoder : public Encoder {
 public:
  explicit ChatEncoder(bool logprobs) : logprobs_(logprobs) {}

  bool logprobs() const override { return logprobs_; }

  std::vector<Json> started(const AnswerHead& head, int32_t choices) const override {
    std::vector<Json> chunks;
    for (int32_t i = 0; i < choices; ++i) {
      chunks.push_back(chunk(head, i, {{"role", "assistant"}, {"content", ""}}, nullptr, nullptr));
    }
    return chunks;
  }

  Json delta(const AnswerHead& head, const chat::TextDelta& delta) override {
    Json content = Json::object();
    content["content"] = delta.text;
    return chunk(head, delta.choice, std::move(content), logprobs_ ? logprobs_json(delta.logprobs) : Json(),
                 nullptr);
  }

  Json reasoning(const AnswerHead& head, const chat::ReasoningDelta& delta) const override {
    Json content = Json::object();
    content["reasoning_content"] = delta.text;
    return chunk(head, delta.choice, std::move(content), nullptr, nullptr);
  }

  Json call_started(const AnswerHead& head, const chat::ToolCallStarted& started) const override {
    Json call = call_json(call_id("call_", started.id, started.is_own_id), started.name, "");
    call["index"] = started.call;
    return call_chunk(head, started.choice, std::move(call));
  }

  Json call_delta(const AnswerHead& head, const chat::ToolCallDelta& delta) const override {
    Json call = {{"index", delta.call}, {"function", Json::object()}};
    call["function"]["arguments"] = delta.arguments;
    return call_chunk(head, delta.choice, std::move(call));
  }

  Json finished(const AnswerHead& head, const chat::Finished& finished) const override {
    return chunk(head, finished.choice, Json::object(), nullptr, chat::name(finished.reason));
  }

  Json usage_chunk(const AnswerHead& head, const chat::Usage& usage) const override {
    Json json = envelope(head, "chat.completion.chunk");
    json["usage"] = usage_json(usage);
    return json;
  }

  Json whole(const AnswerHead& head, const std::vector<WholeChoice>& choices) const override {
    Json json = envelope(head, "chat.completion");
    for (size_t i = 0; i < choices.size(); ++i) {
      Json message = message_json(choices[i]);
      Json choice = {{"index", i}, {"message", std::move(message)}};
      choice["logprobs"] = logprobs_ ? logprobs_json(choices[i].logprobs) : Json();
      choice["finish_reason"] = chat::name(choices[i].reason);
      json["choices"].push_back(std::move(choice));
    }
    return json;
  }

 private:
  static Json call_json(std::string id, const std::string& name, const std::string& arguments) {
    return {{"id", std::move(id)},
            {"type", "function"},
            {"function", {{"name", name}, {"arguments", arguments}}}};
  }

  static Json call_chunk(const AnswerHead& head, int32_t choice, Json call) {
    Json content = Json::object();
    content["tool_calls"].push_back(std::move(call));
    return chunk(head, choice, std::move(content), nullptr, nullptr);
  }

  /// A call that was cut is shown as it is: the finish reason says so.
  static Json message_json(const WholeChoice& choice) {
    Json message = {{"role", "assistant"}};
    message["content"] = choice.text.empty() && !choice.calls.empty() ? Json() : Json(choice.text);
    message["refusal"] = nullptr;
    if (!choice.reasoning.empty()) message["reasoning_content"] = choice.reasoning;
    for (const WholeCall& call : choice.calls) {
      message["tool_calls"].push_back(
          call_json(call_id("call_", call.id, call.is_own_id), call.name, call.arguments));
    }
    return message;
  }

  static Json chunk(const AnswerHead& head, int32_t index, Json delta, Json logprobs, Json reason) {
    Json json = envelope(head, "chat.completion.chunk");
    Json choice = {{"index", index}};
    choice["delta"] = std::move(delta);
    choice["logprobs"] = std::move(logprobs);
    choice["finish_reason"] = std::move(reason);
    json["choices"].push_back(std::move(choice));
    if (head.include_usage) json["usage"] = nullptr;
    return json;
  }

  const bool logprobs_;
};

}  // namespace

std::unique_ptr<Encoder> make_chat_encoder(bool logprobs) {
  return std::make_unique<ChatEncoder>(logprobs);
}

}  // namespace penstock::api::openai
