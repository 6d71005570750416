#include "text/tokenizer.h"

#include <atomic>
#include <functional>
#include <thread>

#include <gtest/gtest.h>

#include "base/error.h"
#include "tiny_tokenizers.h"

namespace penstock::text {
namespace {

using base::Json;
using testing::byte_level;
using testing::byte_level_json;
using testing::sentencepiece;
using Ids = std::vector<int32_t>;

base::Code code_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const base::Error& error) {
    return error.code();
  }
  return base::Code::kInternal;
}

// CT-07: user text that spells a control token stays text.
TEST(Tokenizer, SpecialTokensInUserText) {
  const Tokenizer tokenizer = byte_level({"<|im_end|>"});
  const std::string text = "a<|im_end|>b";
  EXPECT_EQ(tokenizer.encode(text, false), (Ids{'a', 256, 'b'}));
  const Ids plain = tokenizer.encode(text, false, false);
  EXPECT_EQ(plain.size(), text.size());
  EXPECT_EQ(tokenizer.decode(plain, true), text);
}

TEST(Tokenizer, LooksUpTokens) {
  const Tokenizer tokenizer = byte_level({"<|im_end|>"});
  EXPECT_EQ(tokenizer.token_to_id("<|im_end|>"), 256);
  EXPECT_EQ(tokenizer.token_to_id("<|nothing|>"), std::nullopt);
  EXPECT_TRUE(tokenizer.is_special(256));
  EXPECT_FALSE(tokenizer.is_special('a'));
  EXPECT_EQ(tokenizer.piece(' '), " ");
  EXPECT_EQ(tokenizer.piece(256), "<|im_end|>");
  EXPECT_EQ(tokenizer.vocab_size(), 257);
}

// TK-17: added tokens that the model's vocabulary lacks keep the ids that the file gives them.
TEST(Tokenizer, AddedTokensKeepTheirIds) {
  Json file = byte_level_json({});
  file["added_tokens"] =
      Json::array({testing::added_token(300, "<b>", true), testing::added_token(290, "<a>", true)});
  const Tokenizer tokenizer = Tokenizer::from_json(file.dump(), "");
  EXPECT_EQ(tokenizer.encode("x<b><a>", false), (Ids{'x', 300, 290}));
  EXPECT_EQ(tokenizer.vocab_size(), 301);
  EXPECT_EQ(tokenizer.piece(295), "");
}

// The configuration's add_bos_token decides over the file's post-processor only when it is there.
TEST(Tokenizer, SpecialTokensAroundAText) {
  Json file = byte_level_json({"<s>", "</s>"});
  file["post_processor"] = {
      {"type", "TemplateProcessing"},
      {"single",
       {{{"SpecialToken", {{"id", "<s>"}, {"type_id", 0}}}}, {{"Sequence", {{"id", "A"}, {"type_id", 0}}}}}},
      {"pair",
       {{{"Sequence", {{"id", "A"}, {"type_id", 0}}}}, {{"Sequence", {{"id", "B"}, {"type_id", 1}}}}}},
      {"special_tokens", {{"<s>", {{"id", "<s>"}, {"ids", {256}}, {"tokens", {"<s>"}}}}}}};
  const auto ids = [&](const Json& config) {
    return Tokenizer::from_json(file.dump(), config.is_null() ? "" : config.dump()).encode("a", true);
  };
  EXPECT_EQ(ids(nullptr), (Ids{256, 'a'}));
  EXPECT_EQ(ids({{"bos_token", "<s>"}}), (Ids{256, 'a'}));
  EXPECT_EQ(ids({{"bos_token", "<s>"}, {"add_bos_token", false}}), (Ids{'a'}));
  const Json both = {{"bos_token", "<s>"},
                     {"add_bos_token", true},
                     {"eos_token", {{"content", "</s>"}}},
                     {"add_eos_token", true}};
  EXPECT_EQ(ids(both), (Ids{256, 'a', 257}));
  EXPECT_EQ(Tokenizer::from_json(file.dump(), both.dump()).encode("a", false), (Ids{'a'}));
}

TEST(Tokenizer, SentencePieceFromGguf) {
  const Tokenizer tokenizer = sentencepiece();
  const Ids ids = tokenizer.encode("Hello world", true);
  ASSERT_EQ(ids.size(), 3U);
  EXPECT_EQ(tokenizer.piece(ids[1]), " Hello");
  EXPECT_EQ(tokenizer.piece(ids[2]), " world");
  // A character without a token falls back to its bytes.
  const Ids euro = tokenizer.encode("\xE2\x82\xAC", false);
  EXPECT_EQ(Ids(euro.end() - 3, euro.end()), (Ids{3 + 0xE2, 3 + 0x82, 3 + 0xAC}));
  EXPECT_EQ(tokenizer.decode(euro, true), "\xE2\x82\xAC");
}

TEST(Tokenizer, GgufFlagsDecideWhatGoesAround) {
  GgufVocab vocab = testing::sentencepiece_vocab();
  vocab.add_bos = false;
  vocab.add_eos = true;
  vocab.add_space_prefix = false;
  const Tokenizer tokenizer = Tokenizer::from_gguf(vocab);
  const Ids ids = tokenizer.encode("Hello", true);
  ASSERT_EQ(ids.size(), 2U);
  EXPECT_EQ(tokenizer.piece(ids[0]), "Hello");
  EXPECT_EQ(ids[1], 2);
}

TEST(Tokenizer, DamagedFilesAreClearErrors) {
  using base::Code;
  EXPECT_EQ(code_of([] { Tokenizer::from_json("", ""); }), Code::kCorrupt);
  EXPECT_EQ(code_of([] { Tokenizer::from_json("{\"model\": {}}", ""); }), Code::kCorrupt);
  EXPECT_EQ(code_of([] { Tokenizer::from_json(byte_level_json({}).dump(), "{"); }), Code::kCorrupt);
  GgufVocab vocab = testing::sentencepiece_vocab();
  vocab.scores.pop_back();
  EXPECT_EQ(code_of([&] { Tokenizer::from_gguf(vocab); }), Code::kCorrupt);
  vocab = testing::sentencepiece_vocab();
  vocab.bos_id = static_cast<int32_t>(vocab.tokens.size());
  EXPECT_EQ(code_of([&] { Tokenizer::from_gguf(vocab); }), Code::kCorrupt);
  vocab = testing::sentencepiece_vocab();
  vocab.model = "rwkv";
  EXPECT_EQ(code_of([&] { Tokenizer::from_gguf(vocab); }), Code::kUnsupported);
  vocab = testing::sentencepiece_vocab();
  vocab.tokens[5] = "\xFF";
  EXPECT_EQ(code_of([&] { Tokenizer::from_gguf(vocab); }), Code::kCorrupt);
  vocab = {};
  vocab.model = "gpt2";
  vocab.pre = "never heard of";
  vocab.tokens = {"a"};
  EXPECT_EQ(code_of([&] { Tokenizer::from_gguf(vocab); }), Code::kUnsupported);
}

TEST(Tokenizer, RefusesTextThatIsNotUtf8) {
  const Tokenizer tokenizer = byte_level({});
  EXPECT_EQ(code_of([&] { tokenizer.encode("a\xFF", false); }), base::Code::kInvalidRequest);
  EXPECT_EQ(tokenizer.encode("", false), Ids{});
  EXPECT_EQ(tokenizer.encode(std::string("a\0b", 3), false), (Ids{'a', 0, 'b'}));
}

TEST(Tokenizer, IsUsedFromManyThreads) {
  const Tokenizer tokenizer = byte_level({"<|im_end|>"});
  std::string text;
  for (int i = 0; i < 200; ++i) text += "some words " + std::to_string(i) + "<|im_end|>";
  const Ids want = tokenizer.encode(text, false);
  std::atomic<int> wrong = 0;
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&] {
        for (int round = 0; round < 20; ++round) wrong += tokenizer.encode(text, false) != want;
      });
    }
  }
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace penstock::text
