#include "grammar/tag.h"

#include <gtest/gtest.h>

#include "unit/grammar/small_codec.h"

namespace penstock::grammar {
namespace {

using testing::SmallCodec;

/// Where the tag is first complete in a text fed in these pieces, in bytes from its start; -1 nowhere.
int64_t found(const Tag& tag, std::initializer_list<std::string_view> pieces) {
  size_t matched = 0, before = 0;
  for (const std::string_view piece : pieces) {
    const Tag::Step step = tag.advance(matched, piece);
    if (step.end) return static_cast<int64_t>(before + *step.end);
    matched = step.matched;
    before += piece.size();
  }
  return -1;
}

TEST(Tag, IsFoundHoweverTheTextIsCut) {
  const SmallCodec codec;
  const Tag tag(codec, "</think>");
  EXPECT_EQ(found(tag, {"a</think>b"}), 9);
  EXPECT_EQ(found(tag, {"a<", "/thi", "nk", ">b"}), 9);
  EXPECT_EQ(found(tag, {"<</", "</think", "<</think", ">"}), 19);
  EXPECT_EQ(found(tag, {"</think", " >", "</thin>"}), -1);
  const Tag again(codec, "aabaaa");
  EXPECT_EQ(found(again, {"aaba", "abaaa"}), 9) << "its own beginnings inside it";
  EXPECT_EQ(found(again, {"a", "a", "b", "a", "a", "a"}), 6);
}

TEST(Tag, KnowsTheTokensThatCloseItWithMoreBehind) {
  const SmallCodec codec;
  const Tag tag(codec, "</think>");
  ASSERT_EQ(tag.closers(0).size(), 2u);
  EXPECT_EQ(tag.closers(0)[0].token, codec.id_of("</think>\n"));
  EXPECT_EQ(tag.closers(0)[0].rest, "\n");
  EXPECT_EQ(tag.closers(0)[1].rest, "x");
  const Tag call(codec, "<call>");
  EXPECT_TRUE(call.closers(0).empty());
  ASSERT_EQ(call.closers(2).size(), 2u) << "behind <c";
  EXPECT_EQ(call.closers(2)[0].rest, "{");
  EXPECT_TRUE(call.closers(3).empty());
}

TEST(Tag, KnowsTheTokensThatGoOnWithIt) {
  const SmallCodec codec;
  const Tag tag(codec, "<think>");
  EXPECT_EQ(tag.openers(0), (std::vector<int32_t>{'<', codec.id_of("<think>")}));
  EXPECT_EQ(tag.openers(1), (std::vector<int32_t>{'t', codec.id_of("think")}));
  EXPECT_EQ(tag.openers(6), (std::vector<int32_t>{'>'}));
}

}  // namespace
}  // namespace penstock::grammar
