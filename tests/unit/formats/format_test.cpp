#include "formats/format.h"

#include <fstream>
#include <sstream>

#include <gtest/gtest.h>

#include "base/error.h"
#include "formats/list.h"
#include "output.h"

namespace penstock::formats {
namespace {

using base::Json;

TEST(OutputFormat, NoneWhereTheTemplateHasNone) {
  const OutputFormat format = detect("{{ messages[0].content }}");
  EXPECT_EQ(format.tool_name(), "none");
  EXPECT_EQ(format.reasoning_name(), "none");
  EXPECT_TRUE(format.spelled_tokens().empty());
  EXPECT_FALSE(format.opens_reasoning("<think>"));
}

TEST(OutputFormat, ByNameOrAsDetected) {
  const OutputFormat detected = detect("<tool_call> </think>");
  EXPECT_EQ(chosen("auto", "auto", detected).tool_name(), "hermes");
  EXPECT_EQ(chosen("auto", "auto", detected).reasoning_name(), "think");
  EXPECT_EQ(chosen("none", "none", detected).tool_name(), "none");
  EXPECT_EQ(chosen("hermes", "think", {}).reasoning_name(), "think");
  try {
    chosen("hermez", "auto", {});
    FAIL();
  } catch (const base::Error& error) {
    EXPECT_EQ(error.code(), base::Code::kInvalidRequest);
    EXPECT_NE(error.text().find("hermes"), std::string::npos) << error.what();
  }
}

TEST(OutputFormat, TemplatesMayOpenReasoning) {
  const OutputFormat format = chosen("none", "think", {});
  EXPECT_TRUE(format.opens_reasoning("<|im_start|>assistant\n<think>\n"));
  EXPECT_FALSE(format.opens_reasoning("what is <think>?<|im_end|>\n<|im_start|>assistant\n"));
  EXPECT_FALSE(format.opens_reasoning("<think>\n\n</think>\n\n"));
}

// docs/reference/formats.md has a row for each, in the order in which templates are asked.
TEST(OutputFormat, AllAreDocumented) {
  std::ifstream file(PENSTOCK_SOURCE_DIR "/docs/reference/formats.md");
  std::ostringstream text;
  text << file.rdbuf();
  const std::string page = text.str();
  const size_t reasoning = page.find("## Reasoning");
  size_t at = 0;
  for (const ToolFormat* format : kToolFormats) {
    const size_t row = page.find("| `" + std::string(format->name) + "` |", at);
    ASSERT_LT(row, reasoning) << format->name;
    at = page.find('\n', row);
    const std::string line = page.substr(row, at - row);
    const bool is_forced = line.substr(line.rfind("| ", line.size() - 2)).starts_with("| yes");
    EXPECT_EQ(is_forced, !format->shape.call.empty()) << line;
  }
  at = reasoning;
  for (const ReasoningFormat& format : reasoning_formats()) {
    at = page.find("| `" + std::string(format.name) + "` |", at);
    ASSERT_NE(at, std::string::npos) << format.name;
  }
}

TEST(OutputParser, PlainTextIsNotHeldBack) {
  const std::unique_ptr<OutputParser> parser = make_parser({}, {});
  std::vector<Piece> out;
  parser->push(" \n", out);
  parser->push("<th", out);
  ASSERT_EQ(out.size(), 2u);
  EXPECT_EQ(std::get<Text>(out[1]).text, "<th");
  EXPECT_EQ(std::get<Text>(out[1]).begin, 2u);
}

// TC-40: at latest with the piece that tells.
TEST(OutputParser, TextLeavesWithThePieceThatTells) {
  const Json tools = {{{"type", "function"}, {"function", {{"name", "f"}}}}};
  const std::unique_ptr<OutputParser> parser = make_parser(chosen("hermes", "none", {}), {.tools = &tools});
  const auto push = [&](std::string_view text) {
    std::vector<Piece> out;
    parser->push(text, out);
    std::string got;
    for (const Piece& piece : out) got += std::get<Text>(piece).text;
    return got;
  };
  EXPECT_EQ(push("a <tool"), "a");
  EXPECT_EQ(push(" box"), " <tool box");
  EXPECT_EQ(push("."), ".");
}

// TC-21.
TEST(OutputParser, LongStringsStream) {
  const Json tools = {{{"type", "function"}, {"function", {{"name", "f"}}}}};
  const std::unique_ptr<OutputParser> parser = make_parser(chosen("hermes", "none", {}), {.tools = &tools});
  std::string output = "<tool_call>{\"name\": \"f\", \"arguments\": {\"s\": \"";
  for (int i = 0; i < 200; ++i) output += "0123456789";
  output += "\"}}</tool_call>";
  int deltas = 0;
  std::string joined;
  for (size_t at = 0; at < output.size(); at += 10) {
    std::vector<Piece> out;
    parser->push(output.substr(at, 10), out);
    for (const Piece& piece : out) {
      if (const auto* arguments = std::get_if<CallArguments>(&piece)) {
        ++deltas;
        joined += arguments->json;
      }
    }
  }
  EXPECT_GE(deltas, 200);
  EXPECT_EQ(Json::parse(joined)["s"].get<std::string>().size(), 2000u);
}

// RS-14: parsers share nothing.
TEST(OutputParser, TwoAtATime) {
  const OutputFormat format = chosen("none", "think", {});
  const std::unique_ptr<OutputParser> a = make_parser(format, {}), b = make_parser(format, {});
  std::vector<Piece> from_a, from_b;
  a->push("<think>x", from_a);
  b->push("y", from_b);
  a->push("z", from_a);
  EXPECT_TRUE(std::holds_alternative<Reasoning>(from_a.back()));
  EXPECT_TRUE(std::holds_alternative<Text>(from_b.back()));
}

}  // namespace
}  // namespace penstock::formats
