// The Responses surface without a server: bodies, items and what they stand for.
#include <gtest/gtest.h>

#include "api/page.h"
#include "api/responses/decode.h"
#include "api/responses/fields.h"
#include "api/responses/items.h"
#include "base/error.h"
#include "unit/api/reference_page.h"

namespace penstock::api::responses {
namespace {

using base::Error;
using base::Json;

Create decode(const std::string& body) {
  return decode_create(Json::parse(body));
}

/// "code param" of what a body is refused with.
std::string refusal(const std::string& body) {
  try {
    decode(body);
  } catch (const Error& error) {
    return std::string(base::name(error.code())) + " " + error.param();
  }
  return "accepted";
}

/// The messages of a conversation, as templates read them.
Json messages(const std::string& items, const std::map<std::string, FileText>& files = {}) {
  const Json body = {{"input", Json::parse(items)}};
  Json out = Json::array();
  for (const chat::Message& message : to_messages(read_input(Reader(body)), files))
    out.push_back(chat::to_template_json(message));
  return out;
}

TEST(Responses, the_reference_page_lists_the_same_sets) {
  const std::string page = testing::read_file("docs/reference/responses.md");
  EXPECT_EQ(testing::documented(page, "## Fields of POST /v1/responses"), testing::rows_of(create_fields()));
}

TEST(Responses, defaults_are_those_of_the_official_api) {
  const Create create = decode(R"({"model": "m", "input": "hi"})");
  EXPECT_TRUE(create.store);
  EXPECT_FALSE(create.stream || create.background);
  EXPECT_EQ(create.request.model, "m");
  EXPECT_FALSE(create.request.max_tokens);
  ASSERT_EQ(create.input.size(), 1u);
  const Json& item = create.input[0];
  EXPECT_TRUE(item["id"].get<std::string>().starts_with("msg_"));
  EXPECT_EQ(item["role"], "user");
  EXPECT_EQ(item["content"], Json::parse(R"([{"type": "input_text", "text": "hi"}])"));
  EXPECT_EQ(create.settings["tools"], Json::array());
  EXPECT_EQ(create.settings["tool_choice"], "auto");
  EXPECT_EQ(create.settings["metadata"], Json::object());
  EXPECT_EQ(create.settings["text"], Json::parse(R"({"format": {"type": "text"}})"));
  EXPECT_EQ(create.settings["truncation"], "disabled");
  EXPECT_TRUE(create.ignored.empty());
}

TEST(Responses, what_is_wrong_is_refused_with_its_place) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {R"({})", "invalid_request input"},
      {R"({"input": []})", "invalid_request input"},
      {R"({"input": 3})", "invalid_request input"},
      {R"({"input": [3]})", "invalid_request input[0]"},
      {R"({"input": [{"role": "robot", "content": "x"}]})", "invalid_request input[0].role"},
      {R"({"input": [{"role": "user"}]})", "invalid_request input[0].content"},
      {R"({"input": [{"role": "user", "content": [{"type": "input_text"}]}]})",
       "invalid_request input[0].content[0].text"},
      {R"({"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "x"}]}]})",
       "unsupported input[0].content[0]"},
      {R"({"input": [{"role": "user", "content": [{"type": "input_file", "file_url": "http://x"}]}]})",
       "unsupported input[0].content[0].file_url"},
      {R"({"input": [{"role": "user", "content": [{"type": "input_file", "file_data": "eA=="}]}]})",
       "unsupported input[0].content[0].file_data"},
      {R"({"input": [{"role": "user", "content": [{"type": "input_file"}]}]})",
       "invalid_request input[0].content[0].file_id"},
      {R"({"input": [{"type": "function_call", "call_id": "c", "name": "f"}]})",
       "invalid_request input[0].arguments"},
      {R"({"input": [{"type": "function_call_output", "output": "x"}]})", "invalid_request input[0].call_id"},
      {R"({"input": [{"type": "function_call_output", "call_id": "c"}]})", "invalid_request input[0].output"},
      {R"({"input": [{"type": "web_search_call", "id": "x"}]})", "unsupported input[0].type"},
      {R"({"input": [{"type": "item_reference"}]})", "invalid_request input[0].id"},
      {R"({"input": "x", "store": "yes"})", "invalid_request store"},
      {R"({"input": "x", "store": false, "background": true})", "invalid_request background"},
      {R"({"input": "x", "stream_options": {}})", "invalid_request stream_options"},
      {R"({"input": "x", "truncation": "auto"})", "unsupported truncation"},
      {R"({"input": "x", "truncation": "middle"})", "invalid_request truncation"},
      {R"({"input": "x", "max_output_tokens": 0})", "invalid_request max_output_tokens"},
      {R"({"input": "x", "temperature": 3})", "invalid_request temperature"},
      {R"({"input": "x", "top_logprobs": 21, "include": ["message.output_text.logprobs"]})",
       "invalid_request top_logprobs"},
      {R"({"input": "x", "top_logprobs": 2})", "invalid_request top_logprobs"},
      {R"({"input": "x", "include": ["everything"]})", "invalid_request include"},
      {R"({"input": "x", "reasoning": {"effort": "huge"}})", "invalid_request reasoning.effort"},
      {R"({"input": "x", "text": {"format": {"type": "json_object"}}})", "unsupported text.format"},
      {R"({"input": "x", "text": {"format": {"type": "xml"}}})", "invalid_request text.format.type"},
      {R"({"input": "x", "metadata": {"a": 1}})", "invalid_request metadata"},
      {R"({"input": "x", "conversation": "conv_1"})", "unsupported conversation"},
      {R"({"input": "x", "prompt": {"id": "p"}})", "unsupported prompt"},
      {R"({"input": "x", "tools": [{"type": "function", "function": {"name": "f"}}]})",
       "invalid_request tools[0].name"},
      {R"({"input": "x", "tools": [{"type": "custom", "name": "f"}]})", "unsupported tools[0].type"},
      {R"({"input": "x", "tools": [{"type": "magic"}]})", "invalid_request tools[0].type"},
      {R"({"input": "x", "tools": [{"type": "function", "name": "f"}, {"type": "function", "name": "f"}]})",
       "invalid_request tools[1].name"},
      {R"({"input": "x", "tool_choice": {"type": "function", "name": "f"}})",
       "invalid_request tool_choice.name"},
      {R"({"input": "x", "tool_choice": {"type": "web_search_preview"}})", "unsupported tool_choice"},
      {R"({"input": "x", "tool_choice": "some"})", "invalid_request tool_choice"}};
  for (const auto& [body, expected] : cases) EXPECT_EQ(refusal(body), expected) << body;
}

TEST(Responses, metadata_has_the_official_limits) {
  Json metadata = Json::object();
  for (int i = 0; i < 16; ++i)
    metadata[std::string(60, 'k') + std::to_string(10 + i)] = std::string(512, 'v');
  Json body = {{"input", "x"}, {"metadata", metadata}};
  EXPECT_EQ(decode(body.dump()).settings["metadata"], metadata);
  body["metadata"]["one more"] = "x";
  EXPECT_EQ(refusal(body.dump()), "invalid_request metadata");
  EXPECT_EQ(refusal(Json({{"input", "x"}, {"metadata", {{"a", std::string(513, 'v')}}}}).dump()),
            "invalid_request metadata");
}

TEST(Responses, TC_45_hosted_tools_are_dropped_and_groups_are_flattened) {
  const Create create = decode(R"({"input": "x", "tools": [
      {"type": "web_search"},
      {"type": "local_shell"},
      {"type": "namespace", "name": "crm", "description": "customers", "tools": [
        {"type": "function", "name": "find", "description": "finds", "strict": true,
         "parameters": {"type": "object"}}]},
      {"type": "namespace", "name": "mcp__files__", "description": "", "tools": [{"type": "function", "name": "read"}]},
      {"type": "function", "name": "plain", "parameters": null}],
    "tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": [
      {"type": "function", "name": "find", "namespace": "crm"}, {"type": "function", "name": "plain"},
      {"type": "web_search"}]}})");
  EXPECT_EQ(create.ignored, (std::vector<std::string>{"tools[0].web_search", "tools[1].local_shell"}));
  EXPECT_EQ(create.settings["tools"].size(), 3u) << "the response does not say that it has them";
  EXPECT_EQ(create.settings["tools"][0]["name"], "crm");
  EXPECT_EQ(create.conversation.tools, Json::parse(R"([
      {"type": "function", "function": {"name": "crm__find", "description": "finds", "parameters": {"type": "object"},
        "strict": true}},
      {"type": "function", "function": {"name": "plain"}}])"));
  EXPECT_EQ(create.conversation.tool_choice, "auto");
  ASSERT_TRUE(create.names.contains("crm__find"));
  EXPECT_EQ(create.names.at("crm__find").group, "crm");
  EXPECT_EQ(create.names.at("crm__find").name, "find");
  EXPECT_TRUE(create.names.contains("mcp__files__read"));
  EXPECT_FALSE(create.names.contains("plain"));
}

TEST(Responses, a_chosen_function_is_one_of_the_tools) {
  const Create create = decode(R"({"input": "x", "tools": [{"type": "function", "name": "f"}],
      "tool_choice": {"type": "function", "name": "f"}})");
  EXPECT_EQ(create.conversation.tool_choice,
            Json::parse(R"({"type": "function", "function": {"name": "f"}})"));
  EXPECT_EQ(create.settings["tool_choice"], Json::parse(R"({"type": "function", "name": "f"})"));
}

TEST(Responses, what_does_nothing_is_named) {
  const Create create = decode(R"({"input": "x", "reasoning": {"effort": "none", "summary": "auto"},
      "text": {"verbosity": "low"}, "surprise": 1})");
  EXPECT_EQ(create.ignored, (std::vector<std::string>{"surprise", "reasoning.summary", "text.verbosity"}));
  EXPECT_EQ(create.conversation.template_kwargs,
            Json::parse(R"({"reasoning_effort": "none", "enable_thinking": false})"));
  EXPECT_EQ(create.settings["reasoning"], Json::parse(R"({"effort": "none", "summary": null})"));
}

TEST(Items, one_turn_of_the_assistant_is_one_message) {
  EXPECT_EQ(messages(R"([
      {"role": "developer", "content": "be brief"},
      {"role": "user", "content": [{"type": "input_text", "text": "what is "}, {"type": "input_text", "text": "up?"}]},
      {"type": "reasoning", "id": "rs_1", "summary": [], "content": [{"type": "reasoning_text", "text": "look it up"}]},
      {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "wait"}]},
      {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{\"a\": 1}"},
      {"type": "function_call", "call_id": "c2", "name": "find", "namespace": "crm", "arguments": "{}"},
      {"type": "function_call_output", "call_id": "c1", "output": "one"},
      {"type": "function_call_output", "call_id": "c2", "output": [{"type": "input_text", "text": "two"}]},
      {"type": "reasoning", "summary": [{"type": "summary_text", "text": "led to nothing"}]},
      {"role": "user", "content": "and?"}])"),
            Json::parse(R"([
      {"role": "system", "content": "be brief"},
      {"role": "user", "content": "what is up?"},
      {"role": "assistant", "content": "wait", "reasoning_content": "look it up", "tool_calls": [
        {"id": "c1", "type": "function", "function": {"name": "f", "arguments": {"a": 1}}},
        {"id": "c2", "type": "function", "function": {"name": "crm__find", "arguments": {}}}]},
      {"role": "tool", "content": "one", "tool_call_id": "c1"},
      {"role": "tool", "content": "two", "tool_call_id": "c2"},
      {"role": "user", "content": "and?"}])"));
}

TEST(Items, reasoning_comes_back_in_what_carries_it) {
  EXPECT_TRUE(decode(R"({"input": "x", "include": ["reasoning.encrypted_content"]})").carries_reasoning);
  EXPECT_EQ(messages(R"([{"role": "user", "content": "x"},
      {"type": "reasoning", "summary": [], "content": null, "encrypted_content": "penstock:so it was"},
      {"type": "reasoning", "summary": [], "encrypted_content": "gAAAA of another server"},
      {"role": "assistant", "content": "yes"}])")[1]["reasoning_content"],
            "so it was");
}

TEST(Items, an_output_needs_its_call) {
  EXPECT_THROW(messages(R"([{"role": "user", "content": "x"},
      {"type": "function_call_output", "call_id": "c1", "output": "one"}])"),
               Error);
}

TEST(Items, a_file_is_read_as_text_under_its_name) {
  const std::string items =
      R"([{"role": "user", "content": [{"type": "input_file", "file_id": "file-1"}, {"type": "input_text", "text": "sum it up"}]}])";
  const Json body = {{"input", Json::parse(items)}};
  EXPECT_EQ(files_in(read_input(Reader(body))), std::vector<std::string>{"file-1"});
  EXPECT_EQ(messages(items, {{"file-1", {"notes.txt", "one\ntwo"}}})[0]["content"],
            "File notes.txt:\none\ntwo\n\nsum it up");
}

TEST(Items, a_reference_stands_for_what_it_names) {
  const Json body = {
      {"input",
       Json::parse(R"([{"type": "item_reference", "id": "msg_1"}, {"role": "user", "content": "x"}])")}};
  auto items = read_input(Reader(body));
  EXPECT_EQ(references_in(items), std::vector<std::string>{"msg_1"});
  items = resolved(items, {{"msg_1", {{"id", "msg_1"}, {"type", "message"}}}});
  EXPECT_EQ(items[0]["type"], "message");
  EXPECT_TRUE(references_in(items).empty());
}

Json ids_of_page(const std::string& query) {
  std::vector<Json> items;
  for (const char* id : {"a", "b", "c"}) items.push_back({{"id", id}});
  http::Request request;
  request.query = query;
  const Json page = page_of(items, Query(request));
  Json ids = Json::array();
  for (const Json& item : page["data"]) ids.push_back(item["id"]);
  EXPECT_EQ(page["first_id"], ids.empty() ? Json() : ids.front());
  EXPECT_EQ(page["last_id"], ids.empty() ? Json() : ids.back());
  ids.push_back(page["has_more"]);
  return ids;
}

TEST(Items, pages_go_on_behind_an_id) {
  EXPECT_EQ(ids_of_page(""), Json::parse(R"(["c", "b", "a", false])"));
  EXPECT_EQ(ids_of_page("order=asc&limit=2"), Json::parse(R"(["a", "b", true])"));
  EXPECT_EQ(ids_of_page("order=asc&limit=2&after=b"), Json::parse(R"(["c", false])"));
  EXPECT_EQ(ids_of_page("after=a"), Json::parse(R"([false])"));
  for (const char* bad : {"limit=0", "limit=101", "limit=x", "order=up", "after=z", "limit=%zz"})
    EXPECT_THROW(ids_of_page(bad), Error) << bad;
}

}  // namespace
}  // namespace penstock::api::responses
