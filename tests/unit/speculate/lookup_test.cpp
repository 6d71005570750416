#include "speculate/lookup.h"

#include <random>

#include <gtest/gtest.h>

namespace penstock::speculate {
namespace {

using Tokens = std::vector<int32_t>;

Tokens proposed(const Tokens& text, int32_t n) {
  Lookup lookup;
  lookup.add(text);
  return lookup.propose(n);
}

TEST(Lookup, ProposesWhatFollowedTheLastTime) {
  EXPECT_EQ(proposed({1, 2, 3, 4, 5, 9, 1, 2, 3}, 3), (Tokens{4, 5, 9}));
  EXPECT_EQ(proposed({1, 2, 3, 4, 1, 2, 3, 5, 1, 2, 3}, 1), (Tokens{5})) << "the latest place";
  EXPECT_EQ(proposed({7, 2, 3, 4, 8, 2, 3, 5, 7, 2, 3}, 1), (Tokens{4})) << "the longest match";
}

TEST(Lookup, ProposesNothingNew) {
  EXPECT_EQ(proposed({1, 2, 3, 4}, 3), Tokens{});
  EXPECT_EQ(proposed({1}, 3), Tokens{});
  EXPECT_EQ(proposed({}, 3), Tokens{});
  EXPECT_EQ(proposed({1, 2, 1, 2}, 0), Tokens{});
  EXPECT_EQ(proposed({1, 2, 1, 2}, -1), Tokens{});
}

TEST(Lookup, ARepetitionRepeats) {
  EXPECT_EQ(proposed({5, 6, 7, 5, 6, 7}, 8), (Tokens{5, 6, 7, 5, 6, 7, 5, 6}));
}

TEST(Lookup, AnNgramDoesNotSeeFurtherThanItsTokens) {
  const Tokens text{8, 1, 2, 3, 4, 5, 40, 9, 1, 2, 3, 4, 5, 50, 8, 1, 2, 3, 4, 5};
  EXPECT_EQ(proposed(text, 1), (Tokens{40}));
  Lookup ngram(Lookup::kNgram);
  ngram.add(text);
  EXPECT_EQ(ngram.propose(1), (Tokens{50})) << "the latest of those with five equal tokens";
}

TEST(Lookup, AMatchGrowsWithWhatIsDrawn) {
  Lookup lookup;
  lookup.add(Tokens{1, 2, 3, 4, 5, 9, 1, 2});
  ASSERT_TRUE(lookup.match());
  EXPECT_EQ(lookup.match()->length, 2);
  EXPECT_EQ(lookup.next(), 3);
  lookup.add(3);
  EXPECT_EQ(lookup.match()->length, 3);
  EXPECT_EQ(lookup.next(), 4);
  lookup.add(7);
  EXPECT_FALSE(lookup.match());
  EXPECT_EQ(lookup.next(), -1);
}

/// However the text came, the proposals are those of the whole.
TEST(Lookup, PiecesEqualTheWhole) {
  std::mt19937 rng(3);
  for (int round = 0; round < 100; ++round) {
    Tokens text;
    Lookup pieces;
    for (int i = 0; i < 80; ++i) {
      Tokens piece;
      for (uint32_t n = rng() % 4; n > 0; --n) piece.push_back(static_cast<int32_t>(rng() % 3));
      pieces.add(piece);
      text.insert(text.end(), piece.begin(), piece.end());
      ASSERT_EQ(pieces.propose(6), proposed(text, 6));
      Lookup one_by_one;
      for (const int32_t token : text) one_by_one.add(token);
      ASSERT_EQ(one_by_one.match().has_value(), pieces.match().has_value());
    }
  }
}

}  // namespace
}  // namespace penstock::speculate
