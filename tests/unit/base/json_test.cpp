#include "base/json.h"

#include <limits>
#include <string>

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/json_reader.h"

namespace penstock::base {
namespace {

TEST(ParseJson, KeepsTheOrderOfKeys) {
  EXPECT_EQ(parse_json(R"({"b":1,"a":2})", "x").dump(), R"({"b":1,"a":2})");
}

TEST(ParseJson, RefusesPythonNumbers) {
  EXPECT_THROW(parse_json("[NaN]", "x"), Error);
  EXPECT_THROW(parse_json("[Infinity]", "x"), Error);
}

TEST(ParseJson, RefusesDeepNesting) {
  const std::string deep = std::string(100000, '[') + std::string(100000, ']');
  EXPECT_THROW(parse_json(deep, "the body"), Error);
  EXPECT_NO_THROW(parse_json("[[[1]]]", "x", 3));
  EXPECT_THROW(parse_json("[[[1]]]", "x", 2), Error);
  EXPECT_NO_THROW(parse_json(R"(["[[[[[\"[[["])", "x", 2));
}

TEST(ParseJson, ReadsEveryKind) {
  const std::string text = R"([null,true,-1,18446744073709551615,0.5,"a\u00e9",{"x":{"y":[{}]}},[[]]])";
  EXPECT_EQ(parse_json(text, "x"), Json::parse(text));
  EXPECT_EQ(parse_json(" 7 ", "x"), 7);
  for (const char* bad : {"", "{", "[1,]", "{\"a\"}", "1 2", "1e999", "\"\\ud800\"", "\"\xff\"", "tru"}) {
    EXPECT_THROW(parse_json(bad, "x"), Error) << bad;
  }
}

TEST(ParseJson, TheLastOfMembersWithOneNameCounts) {
  EXPECT_EQ(parse_json(R"({"a":1,"b":{"c":1},"a":2,"d":3,"b":4})", "x").dump(), R"({"a":2,"b":4,"d":3})");
}

// With a look-up for each member this one takes minutes.
TEST(ParseJson, ManyMembersAreReadOneAfterTheOther) {
  std::string text = "{";
  for (int i = 0; i < 400'000; ++i) text += "\"k" + std::to_string(i) + "\":1,";
  EXPECT_EQ(parse_json(text + "\"k7\":2}", "x").size(), 400'000u);
}

TEST(ReadJson, CountsValues) {
  EXPECT_NO_THROW(read_json(R"([1,{"a":2}])", "x", {.values = 4}));
  try {
    read_json(R"([1,{"a":2}])", "x", {.values = 3});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kTooLarge);
  }
}

TEST(ParsePythonJson, ML_22_ReadsWhatPythonWrites) {
  const Json json =
      parse_python_json("\xEF\xBB\xBF{\"a\": NaN, \"b\": -Infinity, \"c\": \"NaN\", \"d\": Infinity}", "x");
  EXPECT_TRUE(json["a"].is_null());
  EXPECT_EQ(json["b"].get<double>(), std::numeric_limits<double>::lowest());
  EXPECT_EQ(json["c"], "NaN");
  EXPECT_EQ(json["d"].get<double>(), std::numeric_limits<double>::max());
}

TEST(ParsePythonJson, NamesTheSource) {
  try {
    parse_python_json("{\"a\": }", "config.json");
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("config.json"), std::string::npos);
  }
}

}  // namespace
}  // namespace penstock::base
