#include "api/openai/encode.h"

namespace penstock::api::openai {
namespace {

using base::Json;

/// Characters of a text, as Python and JavaScript's clients count them (code points).
size_t length_of(const std::string& text) {
  size_t length = 0;
  for (const unsigned char byte : text) length += (byte & 0xC0) != 0x80;
  return length;
}

class CompletionEncoder : public Encoder {
 public:
  CompletionEncoder(bool logprobs, int32_t choices)
      : logprobs_(logprobs), offsets_(static_cast<size_t>(choices)) {}

  bool logprobs() const override { return logprobs_; }

  std::vector<Json> started(const AnswerHead&, int32_t) const override { return {}; }

  Json delta(const AnswerHead& head, const chat::TextDelta& delta) override {
    size_t& offset = offsets_[static_cast<size_t>(delta.choice)];
    return chunk(head, delta.choice, delta.text, logprobs_ ? logprobs_json(delta.logprobs, offset) : Json(),
                 nullptr);
  }

  Json finished(const AnswerHead& head, const chat::Finished& finished) const override {
    return chunk(head, finished.choice, "", nullptr, chat::name(finished.reason));
  }

  Json usage_chunk(const AnswerHead& head, const chat::Usage& usage) const override {
    Json json = envelope(head, "text_completion");
    json["usage"] = usage_json(usage);
    return json;
  }

  Json whole(const AnswerHead& head, const std::vector<WholeChoice>& choices) const override {
    Json json = envelope(head, "text_completion");
    for (size_t i = 0; i < choices.size(); ++i) {
      size_t offset = 0;
      Json logprobs = logprobs_ ? logprobs_json(choices[i].logprobs, offset) : Json();
      json["choices"].push_back(choice_json(static_cast<int32_t>(i), choices[i].text, std::move(logprobs),
                                            chat::name(choices[i].reason)));
    }
    return json;
  }

 private:
  static Json choice_json(int32_t index, const std::string& text, Json logprobs, Json reason) {
    Json choice = {{"index", index}, {"text", text}};
    choice["logprobs"] = std::move(logprobs);
    choice["finish_reason"] = std::move(reason);
    return choice;
  }

  static Json chunk(const AnswerHead& head, int32_t index, const std::string& text, Json logprobs,
                    Json reason) {
    Json json = envelope(head, "text_completion");
    json["choices"].push_back(choice_json(index, text, std::move(logprobs), std::move(reason)));
    if (head.include_usage) json["usage"] = nullptr;
    return json;
  }

  static Json logprobs_json(const std::vector<chat::TokenLogprob>& entries, size_t& offset) {
    Json tokens = Json::array(), values = Json::array(), tops = Json::array(), offsets = Json::array();
    for (const chat::TokenLogprob& entry : entries) {
      tokens.push_back(token_text(entry.bytes));
      values.push_back(entry.logprob);
      Json top = Json::object();
      for (const chat::TokenLogprob& other : entry.top) top[token_text(other.bytes)] = other.logprob;
      tops.push_back(std::move(top));
      offsets.push_back(offset);
      offset += length_of(entry.bytes);
    }
    Json out = Json::object();
    out["tokens"] = std::move(tokens);
    out["token_logprobs"] = std::move(values);
    out["top_logprobs"] = std::move(tops);
    out["text_offset"] = std::move(offsets);
    return out;
  }

  const bool logprobs_;
  std::vector<size_t> offsets_;  // [choices] characters so far, of a stream
};

}  // namespace

std::unique_ptr<Encoder> make_completion_encoder(bool logprobs, int32_t choices) {
  return std::make_unique<CompletionEncoder>(logprobs, choices);
}

}  // namespace penstock::api::openai
