#include "grammar/guide.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "base/error.h"
#include "grammar/compiler.h"
#include "unit/grammar/small_codec.h"

namespace penstock::grammar {
namespace {

using testing::SmallCodec;

const SmallCodec kCodec;
const std::vector<int32_t> kStops = {SmallCodec::kEnd};

Compiler& compiler() {
  static Compiler one(std::make_shared<SmallCodec>(), kStops);
  return one;
}

std::shared_ptr<const Grammar> json() {
  return compiler().compile({Kind::kJsonSchema, R"({"type":"object","properties":{"a":{"type":"boolean"}},
      "required":["a"],"additionalProperties":false})"});
}

Guide guide(GuideOptions options) {
  return Guide(compiler().environment(), std::move(options));
}

std::vector<int32_t> bytes(std::string_view text) {
  return {text.begin(), text.end()};
}

/// The tokens that may follow; nothing where any may.
std::optional<std::vector<int32_t>> allowed(Guide& guide) {
  std::vector<uint32_t> words(10, 0xdeadbeef);
  if (!guide.mask(words)) return std::nullopt;
  EXPECT_EQ(words[9], 0u) << "nothing beyond the vocabulary";
  std::vector<int32_t> tokens;
  for (int32_t t = 0; t < kCodec.vocab_size(); ++t) {
    if ((words[static_cast<size_t>(t) / 32] >> (t % 32) & 1) != 0) tokens.push_back(t);
  }
  for (int32_t t = 0; t < kCodec.vocab_size(); ++t) {
    EXPECT_EQ(guide.allowed({&t, 1}) == 1, std::ranges::count(tokens, t) == 1)
        << "mask and question differ on " << t;
  }
  return tokens;
}

bool allows(Guide& guide, int32_t token) {
  const auto tokens = allowed(guide);
  return !tokens || std::ranges::count(*tokens, token) == 1;
}

void accept(Guide& guide, std::span<const int32_t> tokens) {
  for (const int32_t token : tokens) {
    ASSERT_TRUE(allows(guide, token)) << kCodec.piece(token);
    guide.accept(token);
  }
}
void accept(Guide& guide, std::string_view text) {
  accept(guide, bytes(text));
}

constexpr const char* kAnswer = R"({"a": true})";

TEST(Guide, HoldsAnAnswerToItsGrammar) {
  Guide g = guide({json(), {}, false, {}});
  EXPECT_EQ(allowed(g), (std::vector<int32_t>{'{', kCodec.id_of("{\"")}));
  accept(g, kAnswer);
  EXPECT_TRUE(g.is_done());
  EXPECT_THROW(g.accept('x'), base::Error);
  const auto text = bytes(R"({"a": trux)");
  g.rollback(bytes(kAnswer).size());
  EXPECT_EQ(g.allowed(text), text.size() - 1);
  EXPECT_THROW(g.accept('['), base::Error);
}

TEST(Guide, SO_05_TheGrammarBeginsBehindTheReasoning) {
  Guide g = guide({json(), {}, false, {.open = true, .end = "</think>"}});
  accept(g, "Let me see. [1] </thin no");
  EXPECT_FALSE(allows(g, SmallCodec::kEnd)) << "an answer without an answer";
  EXPECT_FALSE(allows(g, kCodec.id_of("</think>x"))) << "the answer begins unseen";
  accept(g, std::vector<int32_t>{kCodec.id_of("</think>\n")});
  EXPECT_TRUE(allows(g, '\n'));
  EXPECT_TRUE(allows(g, '{'));
  EXPECT_FALSE(allows(g, 'x'));
  EXPECT_FALSE(allows(g, SmallCodec::kEnd));
  accept(g, std::vector<int32_t>{kCodec.id_of("\n\n"), '\n'});
  EXPECT_EQ(allowed(g), (std::vector<int32_t>{'{', kCodec.id_of("{\"")})) << "no whitespace without end";
  accept(g, kAnswer);
  EXPECT_TRUE(g.is_done());
}

TEST(Guide, TheModelMayOpenItsReasoningOrAnswerAtOnce) {
  const Reasoning reasoning{.begin = "<think>", .end = "</think>"};
  Guide at_once = guide({json(), {}, false, reasoning});
  EXPECT_EQ(allowed(at_once), (std::vector<int32_t>{'<', '{', kCodec.id_of("<think>"), kCodec.id_of("{\"")}));
  accept(at_once, kAnswer);
  EXPECT_TRUE(at_once.is_done());

  Guide thinks = guide({json(), {}, false, reasoning});
  accept(thinks, "<thi");
  EXPECT_EQ(allowed(thinks), (std::vector<int32_t>{'n'}));
  accept(thinks, "nk>hm, {</think>");
  accept(thinks, kAnswer);
  EXPECT_TRUE(thinks.is_done());

  const auto tag_like = compiler().compile({Kind::kRegex, "<th[a-z]>"});
  Guide both = guide({tag_like, {}, false, reasoning});
  accept(both, "<thx>");
  EXPECT_TRUE(both.is_done()) << "as far as both may be meant, both go on";
  Guide other = guide({tag_like, {}, false, reasoning});
  accept(other, "<think>a</think><thx>");
  EXPECT_TRUE(other.is_done());
}

TEST(Guide, AControlTokenMayCloseTheReasoning) {
  Guide g = guide({json(), {}, false, {.open = true, .end = "[/THINK]"}});
  accept(g, "a [/TH");
  accept(g, std::vector<int32_t>{SmallCodec::kThinkEnd});
  accept(g, kAnswer);
  EXPECT_TRUE(g.is_done());
}

TEST(Guide, RS_13_TheReasoningEndsWithItsBudget) {
  for (const bool with_grammar : {true, false}) {
    Guide g = guide(
        {with_grammar ? json() : nullptr, {}, false, {.open = true, .end = "</think>", .budget_tokens = 5}});
    accept(g, "abcde");
    for (const char c : std::string("</think>")) {
      EXPECT_EQ(allowed(g), (std::vector<int32_t>{c}));
      g.accept(c);
    }
    if (with_grammar) {
      accept(g, kAnswer);
      EXPECT_TRUE(g.is_done());
    } else {
      EXPECT_EQ(allowed(g), std::nullopt) << "the answer is free";
    }
  }
  Guide at_once = guide(
      {nullptr, {}, false, {.open = true, .end = "[/THINK]", .budget_tokens = 0, .closing = ".[/THINK]"}});
  EXPECT_EQ(allowed(at_once), (std::vector<int32_t>{'.'}));
  at_once.accept('.');
  EXPECT_EQ(allowed(at_once), (std::vector<int32_t>{SmallCodec::kThinkEnd}));
  at_once.accept(SmallCodec::kThinkEnd);
  EXPECT_EQ(allowed(at_once), std::nullopt);

  Guide half = guide({nullptr, {}, false, {.open = true, .end = "</think>", .budget_tokens = 3}});
  accept(half, "a</");
  EXPECT_EQ(allowed(half), (std::vector<int32_t>{'t'})) << "of a tag that stands there in part, the rest";

  Guide opened = guide({nullptr, {}, false, {.begin = "<think>", .end = "</think>", .budget_tokens = 1}});
  accept(opened, "\n<think>");
  EXPECT_EQ(allowed(opened), std::nullopt);
  opened.accept('a');
  EXPECT_EQ(allowed(opened), (std::vector<int32_t>{'<'}));

  Guide early = guide({nullptr, {}, false, {.open = true, .end = "</think>", .budget_tokens = 20}});
  accept(early, "a</think>bcdefghijklmnopqrstuvw");
  EXPECT_EQ(allowed(early), std::nullopt) << "only the reasoning has a budget";
}

GuideOptions calls() {
  return {
      compiler().compile({Kind::kLark, "start: \"<call>\" body\nbody: %json " + json_part(R"({"type":"object",
      "properties":{"n":{"type":"null"}},"additionalProperties":false})")}),
      "<call>",
      {}};
}

TEST(Guide, ATriggerBeginsTheGrammar) {
  Guide g = guide(calls());
  EXPECT_EQ(allowed(g), std::nullopt) << "free text costs nothing";
  accept(g, "I will <cal it. <call>");
  EXPECT_EQ(allowed(g), (std::vector<int32_t>{'{', kCodec.id_of("{\"")}));
  accept(g, R"({"n": null})");
  EXPECT_FALSE(g.is_done());
  EXPECT_EQ(allowed(g), std::nullopt) << "free again";
  accept(g, "and <call>{");
  EXPECT_FALSE(allows(g, SmallCodec::kEnd));
  accept(g, "}");
  EXPECT_TRUE(allows(g, SmallCodec::kEnd));
}

TEST(Guide, ATriggerMayBeginAndEndInsideTokens) {
  Guide g = guide(calls());
  accept(g, "a<c");
  EXPECT_TRUE(allows(g, kCodec.id_of("all>{")));
  EXPECT_FALSE(allows(g, kCodec.id_of("all>?"))) << "the grammar has no question mark there";
  accept(g, std::vector<int32_t>{kCodec.id_of("all>{")});
  EXPECT_TRUE(allows(g, '}'));
  EXPECT_FALSE(allows(g, '{'));

  GuideOptions within = calls();
  within.trigger = "all>{";
  within.grammar = compiler().compile({Kind::kRegex, "all>\\{x"});
  Guide inside = guide(std::move(within));
  accept(inside, "b<c");
  accept(inside, std::vector<int32_t>{kCodec.id_of("all>{")});
  EXPECT_EQ(allowed(inside), (std::vector<int32_t>{'x'}));
}

TEST(Guide, AControlTokenMayBeTheTrigger) {
  Guide g = guide({compiler().compile({Kind::kLark, "start: <|tool|> /[0-9]/"}), "<|tool|>"});
  accept(g, "text ");
  accept(g, std::vector<int32_t>{SmallCodec::kTool});
  EXPECT_TRUE(allows(g, '4'));
  EXPECT_FALSE(allows(g, 'a'));
}

TEST(Guide, AGrammarMayBeginBehindItsTrigger) {
  for (const std::string_view text : {"<call>7", "b<call>7"}) {
    Guide g = guide({compiler().compile({Kind::kRegex, "[0-9]{2}"}), "<call>", true, {}});
    accept(g, text);
    EXPECT_TRUE(allows(g, '3'));
    EXPECT_FALSE(allows(g, 'a'));
  }
}

TEST(Guide, ATriggerInTheReasoningIsNone) {
  GuideOptions options = calls();
  options.reasoning = {.open = true, .end = "</think>"};
  Guide g = guide(std::move(options));
  accept(g, "maybe <call>? </think> no, <call>");
  EXPECT_TRUE(allows(g, '{'));
  EXPECT_FALSE(allows(g, '?'));
}

/// Every token of an answer with all phases is accepted, taken back with others before it, and accepted
/// again.
TEST(Guide, WhatIsTakenBackNeverHappened) {
  GuideOptions plain{json(), {}, false, {.begin = "<think>", .end = "</think>", .budget_tokens = 6}};
  GuideOptions lazy = calls();
  lazy.reasoning = {.open = true, .end = "</think>"};
  const std::string thinking = std::string("<think>abcdef</think>\n") + kAnswer;
  const std::string calling = "ab</think> c <call>{} d <call>{\"n\": null}";
  for (const auto& [options, text] : {std::pair{plain, thinking}, {lazy, calling}}) {
    const std::vector<int32_t> tokens = bytes(text);
    std::vector<std::optional<std::vector<int32_t>>> masks;
    Guide straight = guide(options);
    for (const int32_t token : tokens) {
      masks.push_back(allowed(straight));
      straight.accept(token);
    }
    Guide g = guide(options);
    for (size_t at = 0; at < tokens.size(); ++at) {
      for (size_t ahead = 1; ahead <= 30 && at + ahead <= tokens.size(); ahead += 7) {
        for (size_t i = at; i < at + ahead; ++i) g.accept(tokens[i]);
        g.rollback(ahead);
        EXPECT_EQ(allowed(g), masks[at]) << at << " " << ahead;
      }
      g.accept(tokens[at]);
    }
    EXPECT_EQ(g.is_done(), straight.is_done());
  }
}

TEST(Guide, ABudgetNeedsTokensThatWriteTheEnd) {
  EXPECT_THROW(
      guide({nullptr, {}, false, {.open = true, .end = "</think>", .budget_tokens = 1, .closing = "stop"}}),
      base::Error);
}

}  // namespace
}  // namespace penstock::grammar
