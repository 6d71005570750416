// Runs tests/cases/api/openai_decode.json: bodies with what they decode to, or with the error they get.
#include "api/openai/decode.h"

#include <array>

#include <gtest/gtest.h>

#include "api/body.h"
#include "api/openai/errors.h"
#include "api/openai/fields.h"
#include "unit/api/reference_page.h"

namespace penstock::api::openai {
namespace {

using base::Json;
using testing::documented;
using testing::read_file;
using testing::rows_of;

template <class T>
void put(Json& out, const char* name, const std::optional<T>& value) {
  if (value) out[name] = *value;
}

void describe_input(const chat::Request& request, Json& out) {
  if (const auto* completion = std::get_if<chat::Completion>(&request.input)) {
    for (const auto& prompt : completion->prompts) {
      std::visit([&](const auto& value) { out["prompts"].push_back(value); }, prompt);
    }
    return;
  }
  const auto& conversation = std::get<chat::Conversation>(request.input);
  for (const auto& message : conversation.messages)
    out["messages"].push_back(chat::to_template_json(message));
  out["tools"] = conversation.tools;
  out["tool_choice"] = conversation.tool_choice;
  out["template_kwargs"] = conversation.template_kwargs;
  out["add_generation_prompt"] = conversation.add_generation_prompt;
  out["continue_final_message"] = conversation.continue_final_message;
}

Json describe(const Decoded& decoded) {
  const chat::Request& request = decoded.request;
  Json out = {{"model", request.model},
              {"stream", decoded.stream},
              {"include_usage", decoded.include_usage},
              {"ignored", decoded.ignored},
              {"stop", request.stop},
              {"n", request.n},
              {"logprobs", request.logprobs},
              {"top_logprobs", request.top_logprobs},
              {"ignore_eos", request.ignore_eos}};
  const chat::Sampling& sampling = request.sampling;
  put(out, "max_tokens", request.max_tokens);
  put(out, "temperature", sampling.temperature);
  put(out, "top_p", sampling.top_p);
  put(out, "top_k", sampling.top_k);
  put(out, "min_p", sampling.min_p);
  put(out, "repetition_penalty", sampling.repetition_penalty);
  put(out, "seed", sampling.seed);
  out["presence_penalty"] = sampling.presence_penalty;
  out["frequency_penalty"] = sampling.frequency_penalty;
  out["logit_bias"] = sampling.logit_bias;
  if (request.constraint) {
    const chat::Constraint& held = *request.constraint;
    constexpr std::array kKinds = {"json_schema", "json_object", "regex", "choice", "lark"};
    out["constraint"] = {kKinds[static_cast<size_t>(held.kind)], held.text, held.strict, held.field};
  }
  describe_input(request, out);
  return out;
}

http::Request http_request(const Json& test) {
  http::Request request;
  request.headers = {{"Content-Type", test.value("content_type", "application/json")}};
  if (test.contains("raw")) {
    request.body = test["raw"].get<std::string>();
  } else if (test.contains("nest")) {
    const auto depth = test["nest"].get<size_t>();
    request.body = "{\"messages\":" + std::string(depth, '[') + std::string(depth, ']') + "}";
  } else {
    Json body = test["body"];
    if (test.value("chat", true) && !body.contains("messages")) {
      body["messages"] = {{{"role", "user"}, {"content", "hi"}}};
    }
    request.body = body.dump();
  }
  return request;
}

void check_error(const Json& expected, const base::Error& error) {
  const Json envelope = error_envelope(error)["error"];
  EXPECT_EQ(status_of(error.code()), expected.value("status", 400)) << envelope;
  EXPECT_EQ(envelope["type"], "invalid_request_error");
  for (const auto& [key, value] : expected.items()) {
    if (key == "status" || key == "says") continue;
    EXPECT_EQ(envelope[key], value) << envelope;
  }
  const auto message = envelope["message"].get<std::string>();
  EXPECT_NE(message.find(expected.value("says", "")), std::string::npos) << message;
}

TEST(Decode, cases) {
  const Json cases = base::parse_json(read_file("tests/cases/api/openai_decode.json"), "the cases", 2000);
  for (const Json& test : cases) {
    SCOPED_TRACE(test["name"].get<std::string>());
    try {
      const Json body = parse_body(http_request(test));
      const Json got = describe(test.value("chat", true) ? decode_chat(body) : decode_completion(body));
      ASSERT_TRUE(test.contains("gives")) << "expected an error; got " << got;
      for (const auto& [key, value] : test["gives"].items()) {
        EXPECT_EQ(got.contains(key) ? got[key] : Json("absent"), value) << key;
      }
    } catch (const base::Error& error) {
      ASSERT_TRUE(test.contains("error")) << error.what();
      check_error(test["error"], error);
    }
  }
  EXPECT_GT(cases.size(), 50u);
}

TEST(Fields, the_reference_page_lists_the_same_sets) {
  const std::string page = read_file("docs/reference/openai.md");
  EXPECT_EQ(documented(page, "## Fields of POST /v1/chat/completions"), rows_of(chat_fields()));
  EXPECT_EQ(documented(page, "## Fields of POST /v1/completions"), rows_of(completion_fields()));
}

TEST(Errors, OA_23_the_envelope_always_has_four_fields) {
  const base::Error error(base::Code::kOverloaded, "[x.y] expected room; got none");
  EXPECT_EQ(
      error_envelope(error).dump(),
      R"({"error":{"message":"expected room; got none","type":"rate_limit_error","param":null,"code":"overloaded"}})");
  const http::Response response = error_response(error);
  EXPECT_EQ(response.status, 429);
}

}  // namespace
}  // namespace penstock::api::openai
