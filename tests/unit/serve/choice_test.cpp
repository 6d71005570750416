// A choice whose output is parsed: which events come, and what stop strings, log probabilities and counts
// make of them. The parser is a toy; the real ones are tested in tests/unit/formats.
#include "serve/choice.h"

#include <algorithm>
#include <set>

#include <gtest/gtest.h>

#include "serve/scripted_codec.h"

namespace penstock::serve {
namespace {

/// Each push is one piece: "r..." reasoning, "(name", "=arguments", ")", anything else text.
class ToyParser : public formats::OutputParser {
 public:
  void push(std::string_view text, std::vector<formats::Piece>& out) override {
    const std::string rest(text.substr(std::min<size_t>(1, text.size())));
    if (text.starts_with('r'))
      out.push_back(formats::Reasoning{rest, at_ + 1});
    else if (text.starts_with('('))
      out.push_back(formats::CallBegin{rest, {}});
    else if (text.starts_with('='))
      out.push_back(formats::CallArguments{rest});
    else if (text.starts_with(')'))
      out.push_back(formats::CallEnd{});
    else if (!text.empty())
      out.push_back(formats::Text{std::string(text), at_});
    at_ += text.size();
  }
  void finish(std::vector<formats::Piece>&) override {}

 private:
  size_t at_ = 0;
};

struct Played {
  std::vector<std::string> events;  // "text:...", "reasoning:...", "call 0 name", "arguments 0 ...", "end 0"
  std::vector<std::string> text_tokens, reasoning_tokens, ids;
  int32_t n_reasoning = 0, n_tokens = 0;
  bool is_over = false, has_call = false;
};

void note(const chat::Event& event, Played& out) {
  if (const auto* text = std::get_if<chat::TextDelta>(&event)) {
    if (!text->text.empty()) out.events.push_back("text:" + text->text);
    for (const auto& entry : text->logprobs) out.text_tokens.push_back(entry.bytes);
  } else if (const auto* reasoning = std::get_if<chat::ReasoningDelta>(&event)) {
    out.events.push_back("reasoning:" + reasoning->text);
    for (const auto& entry : reasoning->logprobs) out.reasoning_tokens.push_back(entry.bytes);
  } else if (const auto* call = std::get_if<chat::ToolCallStarted>(&event)) {
    out.events.push_back("call " + std::to_string(call->call) + " " + call->name);
    out.ids.push_back(call->id);
  } else if (const auto* part = std::get_if<chat::ToolCallDelta>(&event)) {
    out.events.push_back("arguments " + std::to_string(part->call) + " " + part->arguments);
  } else if (const auto* end = std::get_if<chat::ToolCallFinished>(&event)) {
    out.events.push_back("end " + std::to_string(end->call));
  }
}

Played play(const std::vector<std::string>& pieces, std::vector<std::string> stop = {},
            bool parallel_calls = true) {
  Script script;
  ScriptedReply reply;
  for (const std::string& piece : pieces) reply.pieces.push_back({piece, 0, -0.5f, {}});
  script.replies.push_back(std::move(reply));
  const ScriptedCodec codec(script);
  ChoiceOptions options{0, std::move(stop), true, true};
  options.parser = std::make_unique<ToyParser>();
  options.parallel_calls = parallel_calls;
  Choice choice(codec, std::move(options));
  std::vector<chat::Event> events;
  for (const std::string& piece : pieces) {
    engine::Token token;
    token.id = codec.id_of(piece);
    choice.push(std::span(&token, 1), events);
  }
  choice.finish(events);
  Played played;
  for (const chat::Event& event : events) note(event, played);
  played.n_reasoning = choice.reasoning_tokens();
  played.n_tokens = choice.completion_tokens();
  played.is_over = choice.is_over();
  played.has_call = choice.has_call();
  return played;
}

using Strings = std::vector<std::string>;

TEST(ChoiceOutput, RS_10_reasoning_text_and_calls_come_in_order) {
  const Played played = play({"rab", "rc", "hi", "(f", "={}", ")"});
  EXPECT_EQ(played.events,
            (Strings{"reasoning:ab", "reasoning:c", "text:hi", "call 0 f", "arguments 0 {}", "end 0"}));
  EXPECT_TRUE(played.has_call);
  EXPECT_FALSE(played.is_over);
}

TEST(ChoiceOutput, RS_11_reasoning_tokens_are_counted) {
  const Played played = play({"rab", "rc", "hi"});
  EXPECT_EQ(played.n_reasoning, 2);
  EXPECT_EQ(played.n_tokens, 3);
}

TEST(ChoiceOutput, ST_26_log_probabilities_go_with_the_text_or_the_reasoning_and_markup_has_none) {
  const Played played = play({"rab", "hi", "(f", "={}", ")", "ho"});
  EXPECT_EQ(played.reasoning_tokens, (Strings{"rab"}));
  EXPECT_EQ(played.text_tokens, (Strings{"hi", "ho"}));
}

TEST(ChoiceOutput, SP_03_a_stop_string_ends_the_text_only) {
  const Played played = play({"rEND", "a", "(f", "=END", ")", "bEND", "c"}, {"END"});
  EXPECT_EQ(played.events,
            (Strings{"reasoning:END", "text:a", "call 0 f", "arguments 0 END", "end 0", "text:b"}));
  EXPECT_TRUE(played.is_over);
  EXPECT_EQ(played.n_tokens, 6) << "up to the token with the stop string";
}

TEST(ChoiceOutput, what_may_become_a_stop_string_goes_out_before_a_call) {
  const Played played = play({"aEN", "(f", ")", "D"}, {"END"});
  EXPECT_EQ(played.events, (Strings{"text:a", "text:EN", "call 0 f", "end 0", "text:D"}));
  EXPECT_EQ(played.text_tokens, (Strings{"aEN", "D"}));
}

TEST(ChoiceOutput, TC_12_without_parallel_calls_it_is_over_after_the_first) {
  const Strings pieces = {"(f", "={}", ")", "(g", "={}", ")"};
  const Played one = play(pieces, {}, false);
  EXPECT_EQ(one.events, (Strings{"call 0 f", "arguments 0 {}", "end 0"}));
  EXPECT_TRUE(one.is_over);
  EXPECT_EQ(one.n_tokens, 3);
  EXPECT_EQ(play(pieces).events.size(), 6u);
}

TEST(ChoiceOutput, TC_36_ids_are_unique_and_nine_letters_or_digits) {
  Strings pieces;
  for (int i = 0; i < 50; ++i) pieces.insert(pieces.end(), {"(f", ")"});
  const Played played = play(pieces);
  EXPECT_EQ(std::set<std::string>(played.ids.begin(), played.ids.end()).size(), 50u);
  for (const std::string& id : played.ids) {
    EXPECT_EQ(id.size(), 9u);
    EXPECT_TRUE(std::all_of(id.begin(), id.end(), [](unsigned char c) { return std::isalnum(c) != 0; }))
        << id;
  }
}

}  // namespace
}  // namespace penstock::serve
