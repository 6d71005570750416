#include "text/detokenizer.h"

#include <ctime>
#include <numeric>

#include <gtest/gtest.h>

#include "text/utf8.h"
#include "tiny_tokenizers.h"

namespace penstock::text {
namespace {

using testing::byte_level;
using testing::sentencepiece;

bool is_utf8(std::string_view text) {
  std::string out;
  return append_utf8(text, out) == text.size() && out == text;
}

std::vector<std::string> deltas(const Tokenizer& tokenizer, const std::vector<int32_t>& ids,
                                DetokenizerOptions options = {}) {
  Detokenizer detokenizer(tokenizer, options);
  std::vector<std::string> parts;
  for (const int32_t id : ids) parts.emplace_back(detokenizer.push(id));
  parts.emplace_back(detokenizer.finish());
  return parts;
}

std::string joined(const std::vector<std::string>& parts) {
  return std::accumulate(parts.begin(), parts.end(), std::string());
}

// TK-03: characters that span tokens arrive whole.
TEST(Detokenizer, EmitsWholeCharactersOnly) {
  const Tokenizer tokenizer = byte_level({});
  const std::string text = "\xF0\x9F\x91\xA8\xE2\x80\x8D\xF0\x9F\x91\xA9 \xE6\xBC\xA2\xE5\xAD\x97 \xC3\xA9";
  const std::vector<int32_t> ids = tokenizer.encode(text, false);
  ASSERT_EQ(ids.size(), text.size());
  const std::vector<std::string> parts = deltas(tokenizer, ids);
  for (const std::string& part : parts) EXPECT_TRUE(is_utf8(part));
  EXPECT_EQ(joined(parts), text);
}

// TK-04: an incomplete character at the end is one U+FFFD, streamed or not.
TEST(Detokenizer, ReplacesAnIncompleteEnd) {
  const Tokenizer tokenizer = byte_level({});
  std::vector<int32_t> ids = tokenizer.encode("ok \xE6\xBC\xA2", false);
  ids.pop_back();
  EXPECT_EQ(deltas(tokenizer, ids).back(), kReplacement);
  EXPECT_EQ(joined(deltas(tokenizer, ids)), "ok \xEF\xBF\xBD");
  EXPECT_EQ(tokenizer.decode(ids, true), "ok \xEF\xBF\xBD");
}

TEST(Detokenizer, ReplacesBytesThatCannotBecomeACharacterAtOnce) {
  const Tokenizer tokenizer = byte_level({});
  const std::vector<int32_t> ids = {0xE6, 0xBC, 'a', 0x80, 'b'};
  const std::vector<std::string> want = {"",
                                         "",
                                         "\xEF\xBF\xBD"
                                         "a",
                                         "\xEF\xBF\xBD",
                                         "b",
                                         ""};
  EXPECT_EQ(deltas(tokenizer, ids), want);
}

// TK-05: the first space goes as in a full decode, later ones stay, and each piece is out at once.
TEST(Detokenizer, SentencePieceDropsOnlyTheFirstSpace) {
  const Tokenizer tokenizer = sentencepiece();
  const std::vector<int32_t> ids = tokenizer.encode("Hello world", true);
  ASSERT_EQ(ids.size(), 3U);
  EXPECT_EQ(ids[0], 1);
  const std::vector<std::string> want = {"", "Hello", " world", ""};
  EXPECT_EQ(deltas(tokenizer, ids), want);
  EXPECT_EQ(tokenizer.decode(ids, true), "Hello world");
  const std::vector<std::string> continued = {"", " Hello", " world", ""};
  EXPECT_EQ(deltas(tokenizer, ids, {.skip_special = true, .at_text_start = false}), continued);
}

// TK-06
TEST(Detokenizer, ByteFallbackTokensMakeACharacter) {
  const Tokenizer tokenizer = sentencepiece();
  const std::vector<int32_t> ids = {3 + 0xE2, 3 + 0x82, 3 + 0xAC};
  const std::vector<std::string> want = {"", "", "\xE2\x82\xAC", ""};
  EXPECT_EQ(deltas(tokenizer, ids), want);
}

TEST(Detokenizer, SpecialTokensAreSkippedOrShown) {
  const Tokenizer tokenizer = byte_level({"<|end|>"});
  const std::vector<int32_t> ids = {'a', 256, 'b'};
  EXPECT_EQ(joined(deltas(tokenizer, ids)), "ab");
  EXPECT_EQ(joined(deltas(tokenizer, ids, {.skip_special = false, .at_text_start = true})), "a<|end|>b");
}

// TK-11: a model may have more rows of logits than the tokenizer has tokens.
TEST(Detokenizer, IdsBeyondTheVocabularyAddNothing) {
  const Tokenizer tokenizer = byte_level({"<|end|>"});
  EXPECT_EQ(tokenizer.vocab_size(), 257);
  EXPECT_EQ(joined(deltas(tokenizer, {'a', 257, 1000000, -1, 'b'})), "ab");
  EXPECT_EQ(tokenizer.piece(257), "");
  EXPECT_FALSE(tokenizer.is_special(-1));
}

double cpu_s() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

// TK-14: making one costs nothing beside loading a tokenizer (a thousandth of even this tiny one's load).
TEST(Detokenizer, IsCheapToMake) {
  const double start = cpu_s();
  const Tokenizer tokenizer = byte_level({});
  const double loaded = cpu_s();
  constexpr int kCount = 1000;
  size_t held = 0;
  for (int i = 0; i < kCount; ++i) held += Detokenizer(tokenizer).finish().size();
  EXPECT_EQ(held, 0U);
  EXPECT_LT((cpu_s() - loaded) / kCount, (loaded - start) / 100);
}

}  // namespace
}  // namespace penstock::text
