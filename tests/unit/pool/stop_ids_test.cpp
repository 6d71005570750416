#include "pool/stop_ids.h"

#include <gtest/gtest.h>

namespace penstock::pool {
namespace {

using base::Json;

text::Tokenizer tokenizer() {
  const Json json = {
      {"version", "1.0"},
      {"added_tokens",
       {{{"id", 3},
         {"content", "<|im_end|>"},
         {"single_word", false},
         {"lstrip", false},
         {"rstrip", false},
         {"normalized", false},
         {"special", true}},
        {{"id", 4},
         {"content", "<|endoftext|>"},
         {"single_word", false},
         {"lstrip", false},
         {"rstrip", false},
         {"normalized", false},
         {"special", true}}}},
      {"normalizer", nullptr},
      {"pre_tokenizer",
       {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", true}}},
      {"post_processor", nullptr},
      {"decoder",
       {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", true}}},
      {"model",
       {{"type", "BPE"},
        {"vocab", {{"a", 0}, {"\"", 1}, {"b", 2}, {"<|im_end|>", 3}, {"<|endoftext|>", 4}}},
        {"merges", Json::array()}}}};
  return text::Tokenizer::from_json(json.dump(), "");
}

TEST(StopIds, EveryFileThatNamesOneCounts) {
  const auto stops = collect_stop_ids(
      {{"config.json", 3, false}, {"generation_config.json", Json::array({4, 3}), true}}, tokenizer(), "");
  EXPECT_EQ(stops.ids, (std::vector<int32_t>{3, 4}));
  EXPECT_TRUE(stops.warnings.empty());
}

TEST(StopIds, TK_08_AnOrdinaryTokenIsNotAStop) {
  const auto stops = collect_stop_ids({{"config.json", 1, false}}, tokenizer(), "");
  EXPECT_TRUE(stops.ids.empty());
  ASSERT_EQ(stops.warnings.size(), 1u);
  EXPECT_NE(stops.warnings[0].find("ordinary text '\"'"), std::string::npos) << stops.warnings[0];
}

TEST(StopIds, TK_16_IdsBeyondTheVocabularyAreIgnoredWithAWarning) {
  const auto stops =
      collect_stop_ids({{"generation_config.json", Json::array({99999, -1, 3, "x"}), true}}, tokenizer(), "");
  EXPECT_EQ(stops.ids, std::vector<int32_t>{3});
  EXPECT_EQ(stops.warnings.size(), 3u);
}

TEST(StopIds, TurnEndersOfTheTemplateCount) {
  const auto stops = collect_stop_ids({{"config.json", 4, false}}, tokenizer(), "{{ content }}<|im_end|>");
  EXPECT_EQ(stops.ids, (std::vector<int32_t>{3, 4}));
}

}  // namespace
}  // namespace penstock::pool
