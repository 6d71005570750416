#include <gtest/gtest.h>

#include "serve/choice.h"
#include "serve/scripted_codec.h"
#include "text/tokenizer.h"

namespace penstock::serve {
namespace {

Script script_of(std::vector<std::string> pieces) {
  Script script;
  script.special_tokens = {"<|im_start|>", "<|im_end|>"};
  ScriptedReply reply;
  for (std::string& piece : pieces) reply.pieces.push_back({std::move(piece), 0, -0.5f, {}});
  script.replies.push_back(std::move(reply));
  return script;
}

struct Played {
  std::string text;
  std::vector<std::string> deltas;
  std::vector<std::string> tokens;  // of the log probabilities
  int32_t completion_tokens = 0;
  bool matched = false;
};

/// Plays pieces through a choice, `group` tokens at a time.
Played play(const std::vector<std::string>& pieces, std::vector<std::string> stop, size_t group = 1) {
  const ScriptedCodec codec(script_of(pieces));
  Choice choice(codec, {0, std::move(stop), true, true});
  Played played;
  std::vector<chat::Event> events;
  std::vector<engine::Token> tokens;
  for (const std::string& piece : pieces) {
    engine::Token token;
    token.id = codec.id_of(piece);
    tokens.push_back(token);
    if (tokens.size() < group) continue;
    choice.push(tokens, events);
    tokens.clear();
  }
  choice.push(tokens, events);
  choice.finish(events);
  for (const chat::Event& event : events) {
    const auto& delta = std::get<chat::TextDelta>(event);
    played.text += delta.text;
    played.deltas.push_back(delta.text);
    for (const auto& entry : delta.logprobs) played.tokens.push_back(entry.bytes);
  }
  played.completion_tokens = choice.completion_tokens();
  played.matched = choice.matched() != nullptr;
  return played;
}

using Strings = std::vector<std::string>;

TEST(Choice, SP_02_a_stop_over_several_tokens_does_not_leak) {
  for (const size_t group : {1, 2, 5}) {
    const Played played = play({"ab", "E", "N", "D", "zz"}, {"END"}, group);
    EXPECT_EQ(played.text, "ab");
    EXPECT_TRUE(played.matched);
    EXPECT_EQ(played.completion_tokens, 4) << "tokens to the stop, for any grouping";
    EXPECT_EQ(played.tokens, Strings{"ab"}) << "the stop's own tokens are not shown";
  }
}

TEST(Choice, SP_13_overlapping_stop) {
  EXPECT_EQ(play({"a", "aab", "c"}, {"aab"}).text, "a");
}

TEST(Choice, SP_14_stop_in_the_first_token_is_an_empty_text) {
  const Played played = play({"\n", "x"}, {"\n"});
  EXPECT_EQ(played.text, "");
  EXPECT_TRUE(played.matched);
}

TEST(Choice, SP_05_stop_split_inside_a_character) {
  const Played played = play({"a\xE4\xB8", "\x96\xE7", "\x95\x8C", "b"}, {"世界"});
  EXPECT_EQ(played.text, "a");
}

TEST(Choice, ST_11_whitespace_pieces_are_kept) {
  EXPECT_EQ(play({"a", "\n", "\n", "- b"}, {}).text, "a\n\n- b");
}

TEST(Choice, ST_12_what_was_held_back_comes_at_the_end) {
  const Played played = play({"hello ", "<"}, {"<stop>"});
  EXPECT_EQ(played.text, "hello <");
  EXPECT_EQ(played.tokens, (Strings{"hello ", "<"}));
}

TEST(Choice, ST_17_grouped_tokens_keep_all_text_and_log_probabilities) {
  const Strings pieces = {"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"};
  const Played played = play(pieces, {}, 4);
  EXPECT_EQ(played.text, "0123456789");
  EXPECT_EQ(played.deltas.size(), 3u);
  EXPECT_EQ(played.tokens, pieces);
}

TEST(Choice, TK_04_an_incomplete_character_at_the_end_is_replaced) {
  const Played played = play({"a", "\xE2\x82"}, {});
  EXPECT_EQ(played.text, "a\xEF\xBF\xBD");
  EXPECT_EQ(played.tokens.size(), 2u);
}

TEST(Choice, log_probabilities_go_out_with_their_text) {
  const ScriptedCodec codec(script_of({"a", "EN", "x"}));
  Choice choice(codec, {0, {"END"}, true, true});
  const auto push = [&](const char* piece) {
    engine::Token token;
    token.id = codec.id_of(piece);
    std::vector<chat::Event> events;
    choice.push(std::span(&token, 1), events);
    return events;
  };
  const auto first = push("a");
  ASSERT_EQ(first.size(), 1u);
  EXPECT_EQ(std::get<chat::TextDelta>(first[0]).logprobs.size(), 1u);
  EXPECT_TRUE(push("EN").empty()) << "held back, and so is its entry";
  const auto both = push("x");
  ASSERT_EQ(both.size(), 1u);
  EXPECT_EQ(std::get<chat::TextDelta>(both[0]).text, "ENx");
  EXPECT_EQ(std::get<chat::TextDelta>(both[0]).logprobs.size(), 2u);
}

TEST(ScriptedCodec, marked_control_tokens_are_text) {
  const ScriptedCodec codec(script_of({"x"}));
  const std::string mark(text::kControlMark);
  const std::vector<int32_t> ids = codec.encode_marked("<|im_end|><" + mark + "|im_end|>", false);
  EXPECT_EQ(codec.text_of(ids), "<|im_end|><|im_end|>");
  EXPECT_EQ(std::count_if(ids.begin(), ids.end(), [&](int32_t id) { return codec.is_special(id); }), 1);
}

}  // namespace
}  // namespace penstock::serve
