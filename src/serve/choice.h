// One generation's tokens turned into events: detokeniser, parser of the model's output, stop strings, and
// log probabilities held back with the text they belong to. Owned by one request, used by one thread at a
// time. Does not talk to the engine.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "chat/event.h"
#include "engine/generator.h"
#include "formats/output_parser.h"
#include "text/codec.h"
#include "text/detokenizer.h"
#include "text/stop_text.h"

namespace penstock::serve {

struct ChoiceOptions {
  int32_t index = 0;
  std::vector<std::string> stop;
  bool logprobs = false;
  bool at_text_start = true;                                // false when it continues the client's own text
  std::vector<int32_t> spelled_tokens = {};                 // control tokens that the parser must see
  std::unique_ptr<formats::OutputParser> parser = nullptr;  // null: everything is text
  bool parallel_calls = true;                               // false: it is over after its first call
};

class Choice {
 public:
  /// `codec` must outlive it.
  Choice(const text::Codec& codec, ChoiceOptions options);

  /// Appends what is certain after these tokens. Those after its end are ignored.
  void push(std::span<const engine::Token> tokens, std::vector<chat::Event>& events);

  /// Appends what was held back, once no more tokens come.
  void finish(std::vector<chat::Event>& events);

  /// Whether it has ended before the model did: by a stop string, or with the only call that is wanted.
  bool is_over() const { return stop_.matched() != nullptr || has_only_call_; }

  /// The stop string that ended the text, or null.
  const std::string* matched() const { return stop_.matched(); }

  /// Whether a call was completed.
  bool has_call() const { return has_call_; }

  /// Tokens so far, up to and with the one that ended it.
  int32_t completion_tokens() const { return completion_tokens_; }

  /// Of them, those with bytes of the reasoning; markup is not counted.
  int32_t reasoning_tokens() const { return reasoning_tokens_; }

 private:
  /// A token whose text waits: bytes [start, end) of what the detokeniser gave, or of the text of the answer.
  struct Held {
    size_t start = 0, end = 0;
    std::optional<chat::TokenLogprob> entry;
  };

  void add(const engine::Token& token, std::vector<chat::Event>& events);
  void parse(std::string_view text, std::vector<chat::Event>& events);
  void place(formats::Piece& piece, std::vector<chat::Event>& events);
  void on(formats::Text& piece, std::vector<chat::Event>& events);
  void on(formats::Reasoning& piece, std::vector<chat::Event>& events);
  void on(formats::CallBegin& piece, std::vector<chat::Event>& events);
  void on(formats::CallArguments& piece, std::vector<chat::Event>& events);
  void on(formats::CallEnd& piece, std::vector<chat::Event>& events);
  void add_text(std::string_view text, size_t begin);
  std::vector<Held> take_unplaced(size_t begin, size_t end);
  void flush_text(std::vector<chat::Event>& events, bool at_end);
  void end_text(std::vector<chat::Event>& events);
  chat::TokenLogprob entry(int32_t id, float logprob) const;
  std::optional<chat::TokenLogprob> entry(const engine::Token& token) const;

  const text::Codec* codec_;
  ChoiceOptions options_;
  text::Detokenizer detokenizer_;
  text::StopText stop_;
  std::vector<formats::Piece> pieces_;  // of one push of the parser
  std::deque<Held> unplaced_;           // tokens whose text no piece has yet
  std::deque<Held> held_;               // tokens of the text that waits for the stop strings
  std::string text_;                    // certain text that is in no event yet
  size_t produced_bytes_ = 0;           // out of the detokeniser
  size_t text_bytes_ = 0;               // into the stop text
  size_t emitted_bytes_ = 0;            // out of the stop text
  int32_t completion_tokens_ = 0, reasoning_tokens_ = 0, calls_ = 0;
  bool has_call_ = false, has_only_call_ = false;
};

}  // namespace penstock::serve
