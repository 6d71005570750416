#include "serve/choice.h"

#include <utility>

namespace penstock::serve {
namespace {

text::DetokenizerOptions detokenizer_options(const ChoiceOptions& options) {
  text::DetokenizerOptions out;
  out.at_text_start = options.at_text_start;
  return out;
}

}  // namespace

Choice::Choice(const text::Codec& codec, ChoiceOptions options)
    : codec_(&codec),
      options_(std::move(options)),
      detokenizer_(codec, detokenizer_options(options_)),
      stop_(options_.stop) {}

std::optional<chat::TextDelta> Choice::push(std::span<const engine::Token> tokens) {
  chat::TextDelta delta;
  delta.choice = options_.index;
  for (const engine::Token& token : tokens) {
    if (matched() != nullptr) break;
    add(token, delta);
  }
  if (delta.text.empty()) return std::nullopt;
  release(delta, false);
  return delta;
}

void Choice::add(const engine::Token& token, chat::TextDelta& delta) {
  ++completion_tokens_;
  const size_t start = produced_bytes_;
  const std::string_view text = detokenizer_.push(token.id);
  produced_bytes_ += text.size();
  if (options_.logprobs) hold(token, start);
  const std::string_view certain = stop_.push(text).text;
  emitted_bytes_ += certain.size();
  delta.text += certain;
}

std::optional<chat::TextDelta> Choice::finish() {
  chat::TextDelta delta;
  delta.choice = options_.index;
  if (matched() == nullptr) {
    delta.text = stop_.push(detokenizer_.finish()).text;
    delta.text += stop_.finish();
    emitted_bytes_ += delta.text.size();
  }
  release(delta, true);
  if (delta.text.empty() && delta.logprobs.empty()) return std::nullopt;
  return delta;
}

chat::TokenLogprob Choice::entry(int32_t id, float logprob) const {
  chat::TokenLogprob entry;
  entry.id = id;
  entry.bytes = codec_->piece(id);
  entry.logprob = logprob;
  return entry;
}

void Choice::hold(const engine::Token& token, size_t start) {
  Held held{start, produced_bytes_, entry(token.id, token.logprob)};
  for (const ops::TopToken& top : token.top) held.entry.top.push_back(entry(top.token, top.logprob));
  held_.push_back(std::move(held));
}

/// Moves the entries whose text is out. At the end all go, but those of a stop string's own tokens.
void Choice::release(chat::TextDelta& delta, bool at_end) {
  while (!held_.empty()) {
    Held& first = held_.front();
    if (at_end && matched() != nullptr && first.start >= emitted_bytes_) break;
    if (!at_end && first.end > emitted_bytes_) break;
    delta.logprobs.push_back(std::move(first.entry));
    held_.pop_front();
  }
  if (at_end) held_.clear();
}

}  // namespace penstock::serve
