// Runs tests/cases/api/anthropic_decode.json, and the blocks and events of answers.
#include <filesystem>
#include <fstream>
#include <variant>

#include <gtest/gtest.h>

#include "api/anthropic/content.h"
#include "api/anthropic/decode.h"
#include "api/anthropic/encode.h"
#include "api/anthropic/errors.h"
#include "api/anthropic/fields.h"
#include "api/anthropic/signing_key.h"
#include "api/anthropic/stream.h"
#include "api/body.h"
#include "unit/api/reference_page.h"
#include "unit/tensor/temporary_directory.h"

namespace penstock::api::anthropic {
namespace {

using base::Json;
using testing::documented;
using testing::read_file;
using testing::rows_of;

const std::string kKey = "a key for the tests";

Json describe(const Decoded& decoded) {
  const chat::Request& request = decoded.request;
  const auto& conversation = std::get<chat::Conversation>(request.input);
  Json out = {{"model", request.model},
              {"stream", decoded.stream},
              {"shows_thinking", decoded.shows_thinking},
              {"ignored", decoded.ignored},
              {"stop", request.stop},
              {"tools", conversation.tools},
              {"tool_choice", conversation.tool_choice},
              {"parallel_tool_calls", conversation.parallel_tool_calls},
              {"template_kwargs", conversation.template_kwargs},
              {"continue_final_message", conversation.continue_final_message}};
  for (const auto& message : conversation.messages)
    out["messages"].push_back(chat::to_template_json(message));
  const auto put = [&](const char* name, const auto& value) {
    if (value) out[name] = *value;
  };
  put("max_tokens", request.max_tokens);
  put("temperature", request.sampling.temperature);
  put("top_p", request.sampling.top_p);
  put("top_k", request.sampling.top_k);
  put("reasoning_budget", conversation.reasoning_budget);
  return out;
}

/// "SIGNED text" in a case stands for the signature of that text.
void sign(Json& value, const Signer& signer) {
  constexpr std::string_view kMark = "SIGNED ";
  if (value.is_structured()) {
    for (Json& part : value) sign(part, signer);
  } else if (value.is_string() && value.get_ref<const std::string&>().starts_with(kMark)) {
    value = signer.sign(value.get<std::string>().substr(kMark.size()));
  }
}

http::Request http_request(const Json& test, const Signer& signer) {
  http::Request request;
  request.headers = {{"Content-Type", "application/json"}};
  if (test.contains("raw")) {
    request.body = test["raw"].get<std::string>();
    return request;
  }
  Json body = test["body"];
  sign(body, signer);
  if (!body.contains("messages")) body["messages"] = {{{"role", "user"}, {"content", "hi"}}};
  if (!body.contains("max_tokens")) body["max_tokens"] = 8;
  request.body = body.dump();
  return request;
}

TEST(AnthropicDecode, cases) {
  const Signer signer(kKey);
  const Json cases = base::parse_json(read_file("tests/cases/api/anthropic_decode.json"), "the cases", 2000);
  for (const Json& test : cases) {
    SCOPED_TRACE(test["name"].get<std::string>());
    try {
      const Json body = parse_body(http_request(test, signer));
      const Json got =
          describe(test.contains("count") ? decode_count(body, signer) : decode_message(body, signer));
      ASSERT_TRUE(test.contains("gives")) << "expected an error; got " << got;
      for (const auto& [key, value] : test["gives"].items()) {
        EXPECT_EQ(got.contains(key) ? got[key] : Json("absent"), value) << key;
      }
    } catch (const base::Error& error) {
      ASSERT_TRUE(test.contains("error")) << error.what();
      const Json& expected = test["error"];
      EXPECT_EQ(status_of(error.code()), 400) << error.what();
      EXPECT_EQ(Json(error.param()), expected.value("param", Json(error.param()))) << error.what();
      EXPECT_NE(error.text().find(expected.value("says", "")), std::string::npos) << error.what();
    }
  }
  EXPECT_GT(cases.size(), 100u);
}

TEST(AnthropicFields, the_reference_page_lists_the_same_sets) {
  const std::string page = read_file("docs/reference/anthropic.md");
  EXPECT_EQ(documented(page, "## Fields of POST /v1/messages\n"), rows_of(message_fields()));
  EXPECT_EQ(documented(page, "## Fields of POST /v1/messages/count_tokens"), rows_of(count_fields()));
}

TEST(AnthropicErrors, AN_03_shape_and_status) {
  const base::Error full(base::Code::kOverloaded, "[x.y] expected room; got none");
  EXPECT_EQ(error_envelope(full).dump(),
            R"({"type":"error","error":{"type":"overloaded_error","message":"expected room; got none"}})");
  EXPECT_EQ(error_response(full).status, 529);
  EXPECT_EQ(status_of(base::Code::kContextLength), 400);
}

TEST(AnthropicErrors, whose_request_it_is) {
  const auto is_ours = [](const std::string& path, std::vector<http::Header> headers = {}) {
    http::Request request;
    request.path = path;
    request.headers = std::move(headers);
    return is_own(request);
  };
  const http::Header version = {"Anthropic-Version", "2023-06-01"};
  EXPECT_TRUE(is_ours("/v1/messages"));
  EXPECT_TRUE(is_ours("/v1/messages/count_tokens"));
  EXPECT_TRUE(is_ours("/v1/v1/messages"));
  EXPECT_TRUE(is_ours("/v1/models", {version}));
  EXPECT_TRUE(is_ours("/v1/models/org/name", {version}));
  EXPECT_FALSE(is_ours("/v1/models"));
  EXPECT_FALSE(is_ours("/v1/messages_of_others"));
  EXPECT_FALSE(is_ours("/v1/chat/completions", {version}));
}

TEST(Signer, signs_what_it_is_given_with_its_key) {
  const Signer signer(kKey), same(kKey), other("another key for tests");
  const std::string signature = signer.sign("hmm");
  EXPECT_EQ(signature.size(), 64u);
  EXPECT_TRUE(signer.is_signed("hmm", signature));
  EXPECT_TRUE(same.is_signed("hmm", signature));
  EXPECT_FALSE(other.is_signed("hmm", signature));
  EXPECT_FALSE(signer.is_signed("hmm.", signature));
  EXPECT_FALSE(signer.is_signed("hmm", signature.substr(1)));
  EXPECT_FALSE(signer.is_signed("hmm", ""));
  EXPECT_FALSE(Signer("").is_signed("hmm", Signer("").sign("hmm"))) << "keys that are made up differ";
  EXPECT_THROW(Signer("short"), base::Error);
}

TEST(SigningKey, is_kept_for_its_owner) {
  const tensor::TemporaryDirectory folder;
  const auto file = folder.path() / "state" / "signing.key";
  const std::string key = kept_signing_key(file);
  EXPECT_EQ(key.size(), 64u);
  EXPECT_EQ(kept_signing_key(file), key);
  EXPECT_EQ(std::filesystem::status(file).permissions(),
            std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(file.parent_path()), {}), 1)
      << "no draft is left";
  std::ofstream(file) << "something else";
  EXPECT_THROW(kept_signing_key(file), base::Error);
  EXPECT_NE(kept_signing_key(folder.path() / "signing.key"), key);
}

using Piece = std::variant<chat::TextDelta, chat::ReasoningDelta, chat::ToolCallStarted, chat::ToolCallDelta,
                           chat::ToolCallFinished>;

Piece text(const std::string& said) {
  return chat::TextDelta{0, said, {}};
}
Piece thought(const std::string& said) {
  return chat::ReasoningDelta{0, said, {}};
}
Piece call_starts(const std::string& name) {
  return chat::ToolCallStarted{0, 0, "abcdefghi", false, name};
}
Piece arguments(const std::string& json) {
  return chat::ToolCallDelta{0, 0, json};
}
Piece call_ends() {
  return chat::ToolCallFinished{0, 0};
}

void play(Content& content, const std::vector<Piece>& pieces) {
  for (const Piece& piece : pieces) std::visit([&](const auto& value) { content.add(value); }, piece);
  content.finish();
}

/// The frames in short: "start 0 text", "text_delta hi", "stop 0".
std::vector<std::string> streamed(const std::vector<Piece>& pieces, bool shows_thinking = true) {
  const Signer signer(kKey);
  std::vector<std::string> lines;
  StreamContent target([&](std::string_view frame) {
    const size_t data = frame.find("\ndata: ");
    const Json json = Json::parse(frame.substr(data + 7));
    const std::string type = json["type"];
    EXPECT_EQ(frame.substr(0, data), "event: " + type) << "AN-04";
    const std::string index = std::to_string(json["index"].get<int>());
    if (type == "content_block_start") {
      lines.push_back("start " + index + " " + json["content_block"]["type"].get<std::string>());
    } else if (type == "content_block_delta") {
      const Json& delta = json["delta"];
      lines.push_back(delta["type"].get<std::string>() + " " + (++delta.begin()).value().get<std::string>());
    } else {
      lines.push_back("stop " + index);
    }
  });
  Content content(signer, shows_thinking, target);
  play(content, pieces);
  return lines;
}

Json whole(const std::vector<Piece>& pieces, bool shows_thinking = true) {
  const Signer signer(kKey);
  WholeContent target;
  Content content(signer, shows_thinking, target);
  play(content, pieces);
  return target.take();
}

using Lines = std::vector<std::string>;

TEST(AnthropicContent, AN_04_blocks_in_the_order_of_the_model) {
  const std::vector<Piece> pieces = {
      thought("I "),        thought("think"), text("Well"), text(":"),   call_starts("weather"),
      arguments("{\"a\":"), arguments("1}"),  call_ends(),  text("done")};
  const std::string signature = Signer(kKey).sign("I think");
  EXPECT_EQ(streamed(pieces), (Lines{"start 0 thinking", "thinking_delta I ", "thinking_delta think",
                                     "signature_delta " + signature, "stop 0", "start 1 text",
                                     "text_delta Well", "text_delta :", "stop 1", "start 2 tool_use",
                                     "input_json_delta {\"a\":", "input_json_delta 1}", "stop 2",
                                     "start 3 text", "text_delta done", "stop 3"}));
  const Json expected = {
      {{"type", "thinking"}, {"thinking", "I think"}, {"signature", signature}},
      {{"type", "text"}, {"text", "Well:"}},
      {{"type", "tool_use"}, {"id", "toolu_abcdefghi"}, {"name", "weather"}, {"input", {{"a", 1}}}},
      {{"type", "text"}, {"text", "done"}}};
  EXPECT_EQ(whole(pieces), expected);
}

TEST(AnthropicContent, AN_08_no_blank_blocks) {
  EXPECT_EQ(streamed({thought("r"), text("\n"), text("\n"), call_starts("f"), arguments("{}"), call_ends(),
                      text(" ")}),
            (Lines{"start 0 thinking", "thinking_delta r", "signature_delta " + Signer(kKey).sign("r"),
                   "stop 0", "start 1 tool_use", "input_json_delta {}", "stop 1"}));
  EXPECT_EQ(streamed({text("\n"), text(""), text("\n a"), text(" "), text("b")}),
            (Lines{"start 0 text", "text_delta \n\n a", "text_delta  ", "text_delta b", "stop 0"}))
      << "white space of a text is not lost";
  EXPECT_EQ(streamed({thought("\n\n"), text("hi")}), (Lines{"start 0 text", "text_delta hi", "stop 0"}))
      << "RS-17";
  EXPECT_EQ(whole({}), Json::array());
}

TEST(AnthropicContent, thinking_that_is_not_shown_is_signed_as_it_is_sent) {
  const std::string signature = Signer(kKey).sign("");
  EXPECT_EQ(streamed({thought("secret"), text("hi")}, false),
            (Lines{"start 0 thinking", "signature_delta " + signature, "stop 0", "start 1 text",
                   "text_delta hi", "stop 1"}));
  EXPECT_EQ(whole({thought("secret")}, false)[0]["thinking"], "");
}

TEST(AnthropicContent, a_call_that_was_cut) {
  const std::vector<Piece> cut = {call_starts("f"), arguments("{\"a\": \"b")};
  EXPECT_EQ(streamed(cut), (Lines{"start 0 tool_use", "input_json_delta {\"a\": \"b", "stop 0"}));
  EXPECT_EQ(whole(cut)[0]["input"], Json::object());
}

TEST(AnthropicContent, an_id_of_the_models_own_stays) {
  EXPECT_EQ(whole({chat::ToolCallStarted{0, 0, "functions.f:0", true, "f"}})[0]["id"], "functions.f:0");
}

TEST(AnthropicEncode, AN_05_usage_at_the_start_and_at_the_end) {
  const chat::Started started = {"org/m", "cpu", 1, 12};
  EXPECT_EQ(
      message_start("msg_1", started).dump(),
      R"({"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"org/m","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":12,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":0,"output_tokens_details":{"thinking_tokens":0}}}})");
  const chat::Usage usage = {12, 5, 8, 2};
  EXPECT_EQ(
      message_delta({0, chat::FinishReason::kStop, ""}, usage).dump(),
      R"({"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"input_tokens":4,"cache_creation_input_tokens":0,"cache_read_input_tokens":8,"output_tokens":5,"output_tokens_details":{"thinking_tokens":2}}})");
}

TEST(AnthropicEncode, stop_reasons) {
  const auto delta = [](chat::FinishReason reason, const std::string& stop = "") {
    return message_delta({0, reason, stop}, {})["delta"];
  };
  EXPECT_EQ(delta(chat::FinishReason::kLength)["stop_reason"], "max_tokens");
  EXPECT_EQ(delta(chat::FinishReason::kToolCalls)["stop_reason"], "tool_use");
  EXPECT_EQ(delta(chat::FinishReason::kStop, "END").dump(),
            R"({"stop_reason":"stop_sequence","stop_sequence":"END"})");
  EXPECT_EQ(delta(chat::FinishReason::kToolCalls, "END")["stop_sequence"], Json());
}

}  // namespace
}  // namespace penstock::api::anthropic
