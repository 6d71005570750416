#include "formats/call_grammar.h"

#include <gtest/gtest.h>

#include "formats/list.h"
#include "output.h"

namespace penstock::formats {
namespace {

using base::Json;

const Json& tools() {
  static const Json kTools = Json::parse(R"([
    {"type": "function", "function": {"name": "write", "parameters": {"type": "object", "properties":
      {"text": {"type": "string"}, "n": {"type": "integer"}, "unit": {"enum": ["c", "f"]}}, "required": ["text"]}}},
    {"type": "function", "function": {"name": "now"}}])");
  return kTools;
}

OutputFormat named(std::string_view name) {
  return chosen(name, "none", {});
}

std::string replaced(std::string text, std::string_view what, const std::string& by) {
  for (size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += by.size())
    text.replace(at, what.size(), by);
  return text;
}

/// A call of "write" as the shape has it.
std::string written(const CallShape& shape, const std::string& text) {
  const Json arguments = {{"text", text}};
  std::string parameter = replaced(std::string(shape.parameter), "$key", "text");
  parameter = replaced(replaced(parameter, "$is_string", "true"), "$type", "string");
  parameter = replaced(parameter, "$value", shape.has_json_strings ? Json(text).dump() : text);
  std::string call = replaced(replaced(std::string(shape.call), "$name", "write"), "$number", "0");
  return replaced(replaced(call, "$parameters", parameter), "$arguments", arguments.dump());
}

// What a grammar forces is what the format's own parser reads.
TEST(CallShapes, AreReadAsTheCallsThatTheyAre) {
  for (const ToolFormat* format : kToolFormats) {
    const CallShape& shape = format->shape;
    if (shape.call.empty()) continue;
    SCOPED_TRACE(format->name);
    const std::string output = std::string(shape.before) + written(shape, "a \"b\"\nc") +
                               std::string(shape.between) + written(shape, "") + std::string(shape.after);
    EXPECT_TRUE(output.starts_with(shape.trigger) || shape.trigger.empty());
    Json got = testing::outcome({format, nullptr}, {.tools = &tools()}, output);
    for (Json& piece : got) piece.erase("id");
    const Json want = {{{"call", "write"}, {"arguments", {{"text", "a \"b\"\nc"}}}},
                       {{"call", "write"}, {"arguments", {{"text", ""}}}}};
    EXPECT_EQ(got, want) << got.dump() << "\nfrom " << output;
  }
}

TEST(CallGrammar, JsonCalls) {
  EXPECT_EQ(
      call_grammar(named("hermes"), tools(), {}),
      "start: \"\" call \"\"\n"
      "call: call_0 | call_1\n"
      "call_0_arguments: %json {\"type\":\"object\",\"properties\":{\"text\":{\"type\":\"string\"},"
      "\"n\":{\"type\":\"integer\"},\"unit\":{\"enum\":[\"c\",\"f\"]}},\"required\":[\"text\"]}\n"
      "call_0: \"<tool_call>\\n{\\\"name\\\": \\\"\" \"write\" \"\\\", \\\"arguments\\\": \" "
      "call_0_arguments "
      "\"}\\n</tool_call>\"\n"
      "call_1_arguments: %json {\"type\":\"object\"}\n"
      "call_1: \"<tool_call>\\n{\\\"name\\\": \\\"\" \"now\" \"\\\", \\\"arguments\\\": \" call_1_arguments "
      "\"}\\n</tool_call>\"\n");
}

TEST(CallGrammar, SeveralCallsBehindTheTrigger) {
  const Json one = Json::array({tools()[1]});
  EXPECT_EQ(call_trigger(named("hermes")), "<tool_call>");
  EXPECT_EQ(
      call_grammar(named("hermes"), one, {.several = true, .after_trigger = true}),
      "start: \"\" first (\"\\n\" call)* \"\"\n"
      "call: call_0\n"
      "call_0_arguments: %json {\"type\":\"object\"}\n"
      "call_0: \"<tool_call>\\n{\\\"name\\\": \\\"\" \"now\" \"\\\", \\\"arguments\\\": \" call_0_arguments "
      "\"}\\n</tool_call>\"\n"
      "first: \"\\n{\\\"name\\\": \\\"\" \"now\" \"\\\", \\\"arguments\\\": \" call_0_arguments "
      "\"}\\n</tool_call>\"\n");
}

// TC-03: strings are text of any lines up to the tag.
TEST(CallGrammar, ParametersBetweenTags) {
  const Json one = Json::array({tools()[0]});
  EXPECT_EQ(call_grammar(named("qwen3_coder"), one, {}),
            "start: \"\" call \"\"\n"
            "call: call_0\n"
            "call_0_r0_text[suffix=\"\\n</parameter>\\n\"]: /(?s:.*)/\n"
            "call_0_r0: \"<parameter=\" \"text\" \">\\n\" call_0_r0_text\n"
            "call_0_o0_json: %json {\"type\":\"integer\"}\n"
            "call_0_o0: \"<parameter=\" \"n\" \">\\n\" call_0_o0_json \"\\n</parameter>\\n\"\n"
            "call_0_o1: \"<parameter=\" \"unit\" \">\\n\" (\"c\" | \"f\") \"\\n</parameter>\\n\"\n"
            "call_0: \"<tool_call>\\n<function=\" \"write\" \">\\n\" (call_0_r0 (call_0_o0)? (call_0_o1)?) "
            "\"</function>\\n</tool_call>\"\n");
}

TEST(CallGrammar, ControlTokensByTheirIds) {
  CallGrammarOptions options;
  options.control_token = [](std::string_view text) -> std::optional<int32_t> {
    if (text == "[TOOL_CALLS]") return 9;
    return std::nullopt;
  };
  options.json_part = [](std::string_view) { return std::string("{}"); };
  EXPECT_EQ(call_grammar(named("mistral"), Json::array({tools()[1]}), options),
            "start: \"\" call \"\"\ncall: call_0\ncall_0_arguments: %json {}\n"
            "call_0: <[9]> \"now\" \"[ARGS]\" call_0_arguments\n");
}

TEST(CallGrammar, OptionalArgumentsOfPython) {
  const Json one =
      Json::parse(R"([{"function": {"name": "f", "parameters": {"properties": {"a": {"type": "string"},
                                   "b": {"type": "integer"}}}}}])");
  EXPECT_NE(call_grammar(named("pythonic"), one, {})->find("(call_0_o0 (\", \" call_0_o1)? | call_0_o1)?"),
            std::string::npos);
}

TEST(CallGrammar, NothingToForce) {
  EXPECT_EQ(call_grammar({}, tools(), {}), std::nullopt);
  EXPECT_EQ(call_grammar(named("hermes"), Json::array(), {}), std::nullopt);
  EXPECT_EQ(call_grammar(named("minimax_m3"), tools(), {}), std::nullopt);
  EXPECT_EQ(call_grammar(named("llama3"), tools(), {.after_trigger = true}), std::nullopt);
  EXPECT_EQ(call_trigger(named("llama3")), std::nullopt);
}

}  // namespace
}  // namespace penstock::formats
