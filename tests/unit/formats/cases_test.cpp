// The cases of tests/cases/formats: what is said of each output, in every cut. A file may have, beside its
// cases, `values`: outputs in which $JSON or $RAW stands for a value of values.json, which must come out of
// the argument "text" as it went in.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <gtest/gtest.h>

#include "output.h"

namespace penstock::formats {
namespace {

using base::Json;
using testing::outcome;

std::filesystem::path cases_dir() {
  return std::filesystem::path(PENSTOCK_SOURCE_DIR) / "tests/cases/formats";
}

Json read_cases(const std::string& name) {
  std::ifstream file(cases_dir() / (name + ".json"));
  std::ostringstream text;
  text << file.rdbuf();
  return base::parse_json(text.str(), name);
}

std::vector<std::string> files() {
  std::vector<std::string> out;
  for (const auto& entry : std::filesystem::directory_iterator(cases_dir())) {
    const std::string name = entry.path().stem().string();
    if (name != "values" && name != "tools") out.push_back(name);
  }
  std::sort(out.begin(), out.end());
  return out;
}

std::string replaced(std::string text, const std::string& what, const std::string& by) {
  for (size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += by.size()) {
    text.replace(at, what.size(), by);
  }
  return text;
}

class FormatCases : public ::testing::TestWithParam<std::string> {
 protected:
  FormatCases()
      : file_(read_cases(GetParam())),
        tools_(read_cases("tools")),
        format_(chosen(file_.value("tools", "none"), file_.value("reasoning", "none"), {})) {}

  Json file_, tools_;
  OutputFormat format_;
};

TEST_P(FormatCases, Outcomes) {
  for (const Json& row : file_.at("cases")) {
    SCOPED_TRACE(row.at("name").get<std::string>());
    const bool has_tools = row.value("tools", true);
    const ParserOptions options = {has_tools ? &tools_ : nullptr, row.value("in_reasoning", false)};
    const std::string output = row.at("output").get<std::string>();
    const Json got = outcome(format_, options, output);
    EXPECT_EQ(got, row.at("want")) << got.dump() << "\nfrom " << output;
  }
}

TEST_P(FormatCases, Values) {
  if (!file_.contains("values")) GTEST_SKIP() << "reasoning only";
  const Json values = read_cases("values");
  for (const Json& form : file_["values"]) {
    for (const Json& value : values) {
      const auto but = form.find("but");  // values that this form cannot tell from its markup
      if (but != form.end() && std::find(but->begin(), but->end(), value) != but->end()) continue;
      const std::string output =
          replaced(replaced(form.at("output").get<std::string>(), "$JSON", value.dump()), "$RAW",
                   value.get<std::string>());
      const Json want = Json::array({{{"call", "write"}, {"arguments", {{"text", value}}}}});
      Json got = outcome(format_, {.tools = &tools_}, output);
      if (!got.empty()) got.back().erase("id");
      EXPECT_EQ(got, want) << got.dump() << "\nfrom " << output;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Files, FormatCases, ::testing::ValuesIn(files()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace penstock::formats
