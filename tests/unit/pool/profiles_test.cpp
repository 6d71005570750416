#include "pool/profiles.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace penstock::pool {
namespace {

Profiles parse(const std::string& text) {
  return parse_profiles(base::parse_json(text, "test"));
}

TEST(Profiles, values_are_read_and_the_rest_is_absent) {
  const Profiles profiles = parse(R"({"hot": {"temperature": 1.5, "top_k": 40}, "plain": {}})");
  ASSERT_EQ(profiles.size(), 2u);
  EXPECT_EQ(profiles.at("hot").temperature, 1.5f);
  EXPECT_EQ(profiles.at("hot").top_k, 40);
  EXPECT_FALSE(profiles.at("hot").top_p);
  EXPECT_FALSE(profiles.at("plain").temperature);
}

TEST(Profiles, slips_are_errors) {
  for (const char* text :
       {R"([])", R"({"a": 1})", R"({"a": {"temprature": 1}})", R"({"a": {"temperature": "1"}})",
        R"({"a": {"temperature": 2.5}})", R"({"a": {"temperature": true}})", R"({"a": {"top_k": 1.5}})",
        R"({"a": {"top_k": -2}})", R"({"": {}})", R"({"a:b": {}})", R"({"a/b": {}})",
        R"({"a": {"repetition_penalty": 0}})", R"({"a": {"min_p": null}})"}) {
    EXPECT_THROW(parse(text), base::Error) << text;
  }
  EXPECT_THROW(read_profiles("/nowhere/profiles.json"), base::Error);
}

}  // namespace
}  // namespace penstock::pool
