#include "text/stop_text.h"

#include <random>

#include <gtest/gtest.h>

namespace penstock::text {
namespace {

struct Result {
  std::string text;
  bool matched = false;
};

Result run(StopText& stop, const std::vector<std::string>& parts) {
  Result result;
  for (const std::string& part : parts) {
    const StopText::Emitted emitted = stop.push(part);
    result.text += emitted.text;
    result.matched = emitted.matched;
  }
  result.text += stop.finish();
  return result;
}

Result run(const std::vector<std::string>& stops, const std::vector<std::string>& parts) {
  StopText stop(stops);
  return run(stop, parts);
}

// SP-02
TEST(StopText, HoldsBackAStopOverSeveralTokens) {
  StopText stop({"END"});
  EXPECT_EQ(stop.push("ab").text, "ab");
  EXPECT_EQ(stop.push("E").text, "");
  EXPECT_EQ(stop.push("N").text, "");
  const StopText::Emitted last = stop.push("D");
  EXPECT_EQ(last.text, "");
  EXPECT_TRUE(last.matched);
  EXPECT_EQ(stop.push("zz").text, "");
  EXPECT_TRUE(stop.push("zz").matched);
  EXPECT_EQ(stop.finish(), "");
  EXPECT_EQ(*stop.matched(), "END");
}

// SP-13
TEST(StopText, FindsAnOverlappingStop) {
  const Result result = run({"aab"}, {"a", "a", "a", "b"});
  EXPECT_EQ(result.text, "a");
  EXPECT_TRUE(result.matched);
  EXPECT_EQ(run({"aab"}, {"aaab"}).text, "a");
}

// SP-05
TEST(StopText, CutsUnicodeStops) {
  const std::string world = "\xE4\xB8\x96\xE7\x95\x8C";
  const Result result = run({world}, {"hi ", world.substr(0, 3), world.substr(3), "!"});
  EXPECT_EQ(result.text, "hi ");
  EXPECT_TRUE(result.matched);
  // The same when its bytes come one by one.
  std::vector<std::string> bytes = {"hi "};
  for (const char byte : world) bytes.emplace_back(1, byte);
  EXPECT_EQ(run({world}, bytes).text, "hi ");
}

// ST-12
TEST(StopText, FinishGivesTheHeldText) {
  const Result result = run({"<|end|>"}, {"hello ", "<"});
  EXPECT_EQ(result.text, "hello <");
  EXPECT_FALSE(result.matched);
}

// SP-14
TEST(StopText, AStopAtOnceGivesNoText) {
  const Result result = run({"\n"}, {"\n", "x"});
  EXPECT_EQ(result.text, "");
  EXPECT_TRUE(result.matched);
}

TEST(StopText, TheEarliestEndWinsThenTheLongest) {
  EXPECT_EQ(run({"abcd", "bc"}, {"xabcd"}).text, "xa");
  StopText stop({"bc", "abc"});
  EXPECT_EQ(run(stop, {"xabc"}).text, "x");
  EXPECT_EQ(*stop.matched(), "abc");
}

TEST(StopText, EmptyStopsNeverMatch) {
  EXPECT_EQ(run({"", ""}, {"abc"}).text, "abc");
  EXPECT_EQ(run({}, {"abc"}).text, "abc");
}

// SP-11
TEST(StopText, SequencesAreIndependent) {
  StopText a({"x"});
  StopText b({"y"});
  EXPECT_EQ(a.push("1y2").text, "1y2");
  EXPECT_EQ(b.push("1y2").text, "1");
  EXPECT_EQ(a.push("x").matched, true);
  EXPECT_EQ(b.matched() != nullptr && a.matched() != nullptr, true);
}

TEST(StopText, HoldsNoMoreThanTheLongestPartialStop) {
  StopText stop({"abcabd"});
  EXPECT_EQ(stop.push("xxabcab").text, "xx");
  EXPECT_EQ(stop.push("c").text, "abc");  // "abc" may still become the stop
  EXPECT_EQ(stop.finish(), "abc");
}

// The result is the same for any cutting, and equal to a search in the whole text.
TEST(StopText, DoesNotDependOnTheCutting) {
  std::mt19937 random(7);
  const auto below = [&](int limit) { return static_cast<int>(random() % static_cast<unsigned>(limit)); };
  const auto word = [&](int size) {
    std::string text;
    for (int i = 0; i < size; ++i) text.push_back(static_cast<char>('a' + below(3)));
    return text;
  };
  for (int round = 0; round < 2000; ++round) {
    std::vector<std::string> stops;
    for (int i = below(3) + 1; i > 0; --i) stops.push_back(word(below(4) + 1));
    const std::string text = word(below(30));
    std::string want = text;
    for (size_t end = 1; end <= text.size() && want.size() == text.size(); ++end) {
      size_t cut = 0;
      for (const std::string& stop : stops) {
        if (std::string_view(text).substr(0, end).ends_with(stop)) cut = std::max(cut, stop.size());
      }
      if (cut > 0) want = text.substr(0, end - cut);
    }
    std::vector<std::string> parts;
    for (size_t at = 0; at < text.size();) {
      const size_t size = static_cast<size_t>(below(4));
      parts.push_back(text.substr(at, size));
      at += size;
    }
    EXPECT_EQ(run(stops, parts).text, want) << text << " stops " << ::testing::PrintToString(stops);
  }
}

}  // namespace
}  // namespace penstock::text
