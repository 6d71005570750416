#include "pool/draft_loader.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace penstock::pool {
namespace {

struct Words : text::Pieces {
  std::vector<std::string> words;
  int32_t special = -1;

  explicit Words(std::vector<std::string> words, int32_t special = -1)
      : words(std::move(words)), special(special) {}
  std::string_view piece(int32_t id) const override { return words[static_cast<size_t>(id)]; }
  bool is_special(int32_t id) const override { return id == special; }
  text::LeadingSpace leading_space() const override { return text::LeadingSpace::kKeep; }
  int32_t vocab_size() const override { return static_cast<int32_t>(words.size()); }
};

std::string refusal(const Words& target, const Words& draft) {
  try {
    require_same_vocabulary(target, draft);
  } catch (const base::Error& error) {
    EXPECT_EQ(error.code(), base::Code::kInvalidRequest);
    return error.what();
  }
  return "";
}

TEST(DraftLoader, TheSameVocabularyIsTaken) {
  EXPECT_EQ(refusal(Words({"a", "b", "<end>"}, 2), Words({"a", "b", "<end>"}, 2)), "");
}

TEST(DraftLoader, NamesTheTokenThatDiffers) {
  const std::string text = refusal(Words({"a", "b\n", "c"}), Words({"a", "x", "c"}));
  EXPECT_NE(text.find("got \"x\" where the model has \"b\\x0a\", id 1"), std::string::npos) << text;
}

TEST(DraftLoader, AControlTokenIsNoText) {
  const std::string text = refusal(Words({"a", "b"}), Words({"a", "b"}, 1));
  EXPECT_NE(text.find("got \"b\" (a control token) where the model has \"b\", id 1"), std::string::npos)
      << text;
}

TEST(DraftLoader, NamesBothSizes) {
  const std::string text = refusal(Words({"a", "b", "c"}), Words({"a", "b"}));
  EXPECT_NE(text.find("the model's 3 tokens; got 2"), std::string::npos) << text;
}

}  // namespace
}  // namespace penstock::pool
