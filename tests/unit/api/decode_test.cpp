// Runs tests/cases/api/openai_decode.json: bodies with what they decode to, or with the error they get.
#include "api/openai/decode.h"

#include <fstream>
#include <iterator>
#include <set>

#include <gtest/gtest.h>

#include "api/openai/errors.h"
#include "api/openai/fields.h"

namespace penstock::api::openai {
namespace {

using base::Json;

std::string read_file(const std::string& path) {
  std::ifstream file(std::string(PENSTOCK_SOURCE_DIR) + "/" + path);
  EXPECT_TRUE(file.good()) << path;
  return {std::istreambuf_iterator<char>(file), {}};
}

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
              {"notes", decoded.notes},
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
  EXPECT_EQ(error_response(error).status, expected.value("status", 400)) << envelope;
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

/// Names in the table under a heading of docs/reference/openai.md: "| `name` | set | ...".
std::set<std::pair<std::string, std::string>> documented(const std::string& page,
                                                         const std::string& heading) {
  std::set<std::pair<std::string, std::string>> rows;
  size_t at = page.find(heading);
  EXPECT_NE(at, std::string::npos) << heading;
  const size_t end = page.find("\n## ", at + 1);
  while ((at = page.find("\n| `", at)) < end) {
    const size_t name_end = page.find('`', at + 4);
    const size_t set_start = page.find("| ", name_end) + 2;
    rows.emplace(page.substr(at + 4, name_end - at - 4),
                 page.substr(set_start, page.find(' ', set_start) - set_start));
    at = name_end;
  }
  return rows;
}

std::set<std::pair<std::string, std::string>> rows_of(std::span<const Field> fields) {
  std::set<std::pair<std::string, std::string>> rows;
  for (const Field& field : fields) {
    const char* set = field.set == FieldSet::kHonoured   ? "honoured"
                      : field.set == FieldSet::kAccepted ? "accepted"
                                                         : "refused";
    rows.emplace(field.name, set);
  }
  return rows;
}

TEST(Fields, the_reference_page_lists_the_same_sets) {
  const std::string page = read_file("docs/reference/openai.md");
  EXPECT_EQ(documented(page, "## Fields of POST /v1/chat/completions"), rows_of(chat_fields()));
  EXPECT_EQ(documented(page, "## Fields of POST /v1/completions"), rows_of(completion_fields()));
  EXPECT_EQ(documented(page, "## Fields of POST /v1/embeddings"), rows_of(embedding_fields()));
  EXPECT_EQ(documented(page, "## Fields of POST /v1/rerank"), rows_of(rerank_fields()));
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
