#include "base/json.h"

#include <limits>
#include <string>

#include <gtest/gtest.h>

#include "base/error.h"

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
