// One generation's tokens turned into text: detokeniser, stop strings, and log probabilities held back with
// the text they belong to. Owned by one request, used by one thread at a time. Does not talk to the engine.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "chat/event.h"
#include "engine/generator.h"
#include "text/codec.h"
#include "text/detokenizer.h"
#include "text/stop_text.h"

namespace penstock::serve {

struct ChoiceOptions {
  int32_t index = 0;
  std::vector<std::string> stop;
  bool logprobs = false;
  bool at_text_start = true;  // false when it continues the client's own text
};

class Choice {
 public:
  /// `codec` must outlive it.
  Choice(const text::Codec& codec, ChoiceOptions options);

  /// The text that is certain after these tokens, or nothing. Tokens after a match are ignored.
  std::optional<chat::TextDelta> push(std::span<const engine::Token> tokens);

  /// What was held back, once no more tokens come.
  std::optional<chat::TextDelta> finish();

  /// The stop string that ended the text, or null.
  const std::string* matched() const { return stop_.matched(); }

  /// Tokens so far, up to and with the one that completed a stop string.
  int32_t completion_tokens() const { return completion_tokens_; }

 private:
  struct Held {
    size_t start = 0, end = 0;  // of its text, in bytes from the start of the choice
    chat::TokenLogprob entry;
  };

  void add(const engine::Token& token, chat::TextDelta& delta);
  void hold(const engine::Token& token, size_t start);
  void release(chat::TextDelta& delta, bool at_end);
  chat::TokenLogprob entry(int32_t id, float logprob) const;

  const text::Codec* codec_;
  ChoiceOptions options_;
  text::Detokenizer detokenizer_;
  text::StopText stop_;
  std::deque<Held> held_;
  size_t produced_bytes_ = 0;  // out of the detokeniser
  size_t emitted_bytes_ = 0;   // out of the stop text
  int32_t completion_tokens_ = 0;
};

}  // namespace penstock::serve
