#include "jobs/batch_input.h"

#include <gtest/gtest.h>

namespace penstock::jobs {
namespace {

using base::Json;

constexpr const char* kUrl = "/v1/completions";

std::string line(const std::string& id, const std::string& body = "{}") {
  return R"({"custom_id": ")" + id + R"(", "method": "POST", "url": "/v1/completions", "body": )" + body +
         "}";
}

/// "code param line" of each error.
std::vector<std::string> errors_of(const std::string& text) {
  std::vector<std::string> errors;
  for (const Json& error : read_batch_input(text, kUrl).errors)
    errors.push_back(error["code"].get<std::string>() + " " + error["param"].dump() + " " +
                     error["line"].dump());
  return errors;
}

TEST(BatchInput, requests_come_in_their_order) {
  const BatchInput input = read_batch_input(line("b") + "\r\n\n  \n" + line("a", R"({"x": 1})"), kUrl);
  EXPECT_TRUE(input.errors.empty());
  ASSERT_EQ(input.lines.size(), 2u);
  EXPECT_EQ(input.lines[0].custom_id, "b");
  EXPECT_EQ(input.lines[1].body, R"({"x":1})");
}

TEST(BatchInput, every_wrong_line_is_named) {
  using Errors = std::vector<std::string>;
  EXPECT_EQ(errors_of(""), Errors{"empty_file null null"});
  EXPECT_EQ(errors_of("\n\n"), Errors{"empty_file null null"});
  EXPECT_EQ(errors_of(line("a") + "\nnonsense\n[]\n"),
            (Errors{"invalid_json_line null 2", "invalid_json_line null 3"}));
  EXPECT_EQ(errors_of(line("a") + "\n" + line("a")), Errors{"duplicate_custom_id \"custom_id\" 2"});
  EXPECT_EQ(errors_of("{}"), Errors{"missing_required_parameter \"custom_id\" 1"});
  EXPECT_EQ(errors_of(R"({"custom_id": "a", "method": "GET"})"), Errors{"invalid_method \"method\" 1"});
  EXPECT_EQ(errors_of(R"({"custom_id": "a", "method": "POST", "url": "/v1/files"})"),
            Errors{"invalid_url \"url\" 1"});
  EXPECT_EQ(errors_of(line("a", "[]")), Errors{"missing_required_parameter \"body\" 1"});
  EXPECT_EQ(errors_of(line("a", R"({"stream": true})")), Errors{"invalid_request \"body.stream\" 1"});
  EXPECT_EQ(errors_of(line("a", R"({"background": true})")), Errors{"invalid_request \"body.background\" 1"});
  EXPECT_EQ(errors_of(line("a", R"({"stream": false})")), Errors{});
}

TEST(BatchInput, there_is_a_most_of_errors_and_of_requests) {
  std::string bad;
  for (int i = 0; i < 30; ++i) bad += "x\n";
  EXPECT_EQ(errors_of(bad).size(), 20u);
  std::string many;
  for (int i = 0; i < 50000; ++i) many += line(std::to_string(i)) + "\n";
  EXPECT_TRUE(errors_of(many).empty());
  EXPECT_EQ(errors_of(many + line("one more")), std::vector<std::string>{"too_many_requests null null"});
}

}  // namespace
}  // namespace penstock::jobs
