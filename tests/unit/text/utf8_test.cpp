#include "text/utf8.h"

#include <gtest/gtest.h>

namespace penstock::text {
namespace {

struct Case {
  std::string bytes;
  std::string text;
  size_t left;  // bytes that can still become a character
};

TEST(Utf8, ReplacesEachMaximalIllFormedPart) {
  const std::string r(kReplacement);
  const std::vector<Case> cases = {
      {"abc", "abc", 0},
      {"\xE6\xBC\xA2", "\xE6\xBC\xA2", 0},
      {"a\xE6\xBC", "a", 2},
      {"\xE6\xBC"
       "a",
       r + "a", 0},
      {"\x80\x80", r + r, 0},
      {"\xC0\xAF", r + r, 0},                  // overlong
      {"\xE0\x80\x80", r + r + r, 0},          // overlong
      {"\xED\xA0\x80", r + r + r, 0},          // surrogate
      {"\xF4\x90\x80\x80", r + r + r + r, 0},  // beyond U+10FFFF
      {"\xF0\x9F\x99", "", 3},
      {"\xF0\x9F\x99\x82", "\xF0\x9F\x99\x82", 0},
      {"\xF0\x9F"
       "\xF0\x9F\x99\x82",
       r + "\xF0\x9F\x99\x82", 0},
      {"\xFF", r, 0},
  };
  for (const Case& c : cases) {
    std::string out;
    EXPECT_EQ(append_utf8(c.bytes, out), c.bytes.size() - c.left) << c.bytes;
    EXPECT_EQ(out, c.text);
  }
}

}  // namespace
}  // namespace penstock::text
