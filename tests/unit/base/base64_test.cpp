#include "base/base64.h"

#include <string_view>

#include <gtest/gtest.h>

namespace penstock::base {
namespace {

TEST(Base64, VectorsOfTheRfc) {
  const auto of = [](std::string_view text) { return base64(std::as_bytes(std::span(text))); };
  EXPECT_EQ(of(""), "");
  EXPECT_EQ(of("f"), "Zg==");
  EXPECT_EQ(of("fo"), "Zm8=");
  EXPECT_EQ(of("foo"), "Zm9v");
  EXPECT_EQ(of("foobar"), "Zm9vYmFy");
  EXPECT_EQ(of("\xff\xfe\xfd\xfc"), "//79/A==");
}

}  // namespace
}  // namespace penstock::base
