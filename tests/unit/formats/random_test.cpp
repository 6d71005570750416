// Random outputs made of markers, parts of them and plain bytes: no parser fails on any, every cut gives the
// same, and nothing but markup is lost.
#include <random>

#include <gtest/gtest.h>

#include "formats/list.h"
#include "output.h"

namespace penstock::formats {
namespace {

using base::Json;

const Json& tools() {
  static const Json kTools = Json::parse(R"([{"type": "function", "function": {"name": "f", "parameters":
      {"type": "object", "properties": {"a": {"type": "string"}, "n": {"type": "integer"}}}}}])");
  return kTools;
}

/// What the outputs are made of: all markers of a format and what stands inside its calls.
std::vector<std::string> parts_of(const OutputFormat& format) {
  std::vector<std::string> out = {"f",
                                  "{",
                                  "}",
                                  "[",
                                  "]",
                                  "(",
                                  ")",
                                  "\"",
                                  "'",
                                  ":",
                                  ",",
                                  "=",
                                  "<",
                                  ">",
                                  "/",
                                  "\n",
                                  " ",
                                  "\\",
                                  "a",
                                  "n",
                                  "1",
                                  "text",
                                  "{\"name\": \"f\", \"arguments\": {",
                                  "\"a\": \"",
                                  "f\n",
                                  "call:f{",
                                  "<function=f>",
                                  "<parameter=a>",
                                  "</parameter>",
                                  "</function>",
                                  "<parameter=n>",
                                  "null"};
  for (const std::string& token : format.spelled_tokens()) out.push_back(token);
  if (format.tools != nullptr) {
    for (const Opener& opener : format.tools->openers) {
      out.emplace_back(opener.marker);
      out.emplace_back(opener.closer);
    }
  }
  if (format.reasoning != nullptr)
    out.insert(out.end(), {std::string(format.reasoning->open), std::string(format.reasoning->close)});
  return out;
}

std::string random_output(std::mt19937& random, const std::vector<std::string>& parts) {
  std::string out;
  for (size_t count = random() % 24; count > 0; --count) {
    const std::string& part = parts[random() % parts.size()];
    size_t bytes = random() % 8 == 0 ? random() % (part.size() + 1) : part.size();
    while (bytes < part.size() && (part[bytes] & 0xC0) == 0x80) ++bytes;  // characters stay whole
    out += part.substr(0, bytes);
  }
  return out;
}

std::string without_space(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (!is_space(c)) out += c;
  }
  return out;
}

std::string without(std::string text, std::string_view what) {
  for (size_t at; (at = text.find(what)) != std::string::npos;) text.erase(at, what.size());
  return text;
}

TEST(RandomOutputs, EveryCutGivesTheSame) {
  std::mt19937 random(11);
  for (const ToolFormat* tool_format : kToolFormats) {
    const OutputFormat format = {tool_format, &reasoning_formats().back()};
    const std::vector<std::string> parts = parts_of(format);
    for (int i = 0; i < 150; ++i) {
      const std::string output = random_output(random, parts);
      testing::outcome(format, {&tools(), i % 5 == 0}, output);
      if (::testing::Test::HasFailure()) FAIL() << tool_format->name << ": " << output;
    }
  }
}

// Without tools only tags and the space around them go.
TEST(RandomOutputs, NothingButMarkupIsLost) {
  std::mt19937 random(12);
  for (const ReasoningFormat& reasoning : reasoning_formats()) {
    if (reasoning.messages != nullptr) continue;
    const OutputFormat format = {nullptr, &reasoning};
    std::vector<std::string> parts = parts_of(format);
    for (int i = 0; i < 150; ++i) {
      const std::string output = random_output(random, parts);
      std::string joined;
      for (const Json& piece : testing::outcome(format, {nullptr, i % 3 == 0}, output)) {
        joined +=
            piece.contains("text") ? piece["text"].get<std::string>() : piece["reasoning"].get<std::string>();
      }
      std::string got = without_space(joined), want = without_space(output);
      std::vector<std::string_view> markup = reasoning.dropped;
      markup.insert(markup.end(), {reasoning.open, reasoning.close});
      for (const std::string_view marker : markup) {
        got = without(got, without_space(std::string(marker)));
        want = without(want, without_space(std::string(marker)));
      }
      ASSERT_EQ(got, want) << reasoning.name << ": " << output;
    }
  }
}

}  // namespace
}  // namespace penstock::formats
