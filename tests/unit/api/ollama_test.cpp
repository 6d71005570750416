// Runs tests/cases/api/ollama_decode.json, and compares the encoders and the reference page with what they
// say.
#include <fstream>
#include <iterator>

#include <gtest/gtest.h>

#include "api/error_shape.h"
#include "api/ollama/decode.h"
#include "api/ollama/encode.h"
#include "api/ollama/errors.h"
#include "api/ollama/fields.h"
#include "api/ollama/keep_alive.h"
#include "api/ollama/model_json.h"
#include "unit/api/reference_page.h"

namespace penstock::api::ollama {
namespace {

using base::Json;

template <class T>
void put(Json& out, const char* name, const std::optional<T>& value) {
  if (value) out[name] = *value;
}

void describe_input(const chat::Request& request, Json& out) {
  if (const auto* completion = std::get_if<chat::Completion>(&request.input)) {
    for (const auto& prompt : completion->prompts) out["prompts"].push_back(std::get<std::string>(prompt));
    return;
  }
  const auto& conversation = std::get<chat::Conversation>(request.input);
  out["messages"] = Json::array();
  for (const auto& message : conversation.messages)
    out["messages"].push_back(chat::to_template_json(message));
  out["tools"] = conversation.tools;
  out["template_kwargs"] = conversation.template_kwargs;
  out["needs_reasoning"] = conversation.needs_reasoning;
  if (!conversation.prior_tokens.empty()) out["prior"] = conversation.prior_tokens;
}

Json describe(const Decoded& decoded) {
  const chat::Request& request = decoded.request;
  Json out = {{"stream", decoded.stream},
              {"is_load", decoded.is_load},
              {"shows_reasoning", decoded.shows_reasoning},
              {"ignored", decoded.ignored},
              {"stop", request.stop},
              {"logprobs", request.logprobs},
              {"top_logprobs", request.top_logprobs},
              {"wants_tokens", request.wants_tokens}};
  if (decoded.keep)
    out["keep"] = *decoded.keep == pool::kForever ? Json("forever") : Json(decoded.keep->count());
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
  describe_input(request, out);
  return out;
}

library::Preset preset_of(const Json& test) {
  library::Preset preset;
  if (!test.contains("preset")) return preset;
  preset.system = test["preset"]["system"].get<std::string>();
  preset.parameters = test["preset"]["parameters"];
  return preset;
}

TEST(OllamaDecode, cases) {
  const Json cases = base::parse_json(testing::read_file("tests/cases/api/ollama_decode.json"), "the cases");
  for (const Json& one : cases) {
    SCOPED_TRACE(one["name"].get<std::string>());
    try {
      const bool generates = one.value("generate", false);
      const Decoded decoded =
          generates ? decode_generate(one["body"], preset_of(one)) : decode_chat(one["body"], preset_of(one));
      const Json got = describe(decoded);
      ASSERT_TRUE(one.contains("gives")) << "expected an error; got " << got;
      for (const auto& [key, value] : one["gives"].items()) {
        EXPECT_EQ(got.contains(key) ? got[key] : Json("absent"), value) << key;
      }
    } catch (const base::Error& error) {
      ASSERT_TRUE(one.contains("error")) << error.what();
      const http::Response response = error_response(error);
      EXPECT_EQ(response.status, 400);
      EXPECT_NE(response.body.find(one["error"]["says"].get<std::string>()), std::string::npos)
          << response.body;
    }
  }
  EXPECT_GT(cases.size(), 90u);
}

TEST(OllamaFields, the_reference_page_lists_the_same_sets) {
  const std::string page = testing::read_file("docs/reference/ollama.md");
  const auto check = [&](const char* heading, std::span<const Field> fields) {
    EXPECT_EQ(testing::documented(page, heading), testing::rows_of(fields)) << heading;
  };
  check("## Fields of POST /api/generate", generate_fields());
  check("## Fields of POST /api/chat", chat_fields());
  check("## Options", option_fields());
  check("## Fields of POST /api/show", show_fields());
  check("## Fields of POST /api/pull", pull_fields());
  check("## Fields of POST /api/create", create_fields());
  check("## Fields of POST /api/copy", copy_fields());
  check("## Fields of DELETE /api/delete", delete_fields());
}

TEST(OllamaErrors, OL_14_are_a_text_under_their_paths) {
  const base::Error error(base::Code::kNotFound, "[api.model] model 'x' not found", "model");
  http::Request request;
  request.path = "/api/chat";
  EXPECT_EQ(api::error_response(error, request).body, R"({"error":"model 'x' not found"})");
  EXPECT_EQ(api::error_response(error, request).status, 404);
  request.path = "/v1/models";
  EXPECT_NE(api::error_response(error, request).body.find("model_not_found"), std::string::npos);
}

chat::Done done(std::vector<int32_t> tokens = {}) {
  chat::Done done;
  done.usage.prompt_tokens = 11;
  done.usage.completion_tokens = 5;
  done.tokens = std::move(tokens);
  return done;
}

const Durations kDurations{std::chrono::nanoseconds(5000), std::chrono::nanoseconds(300), 1.5, 2.25};

TEST(OllamaEncode, OL_08_a_chat_ends_with_its_counts) {
  const Encoder encoder(Endpoint::kChat, "m:latest");
  Said said;
  said.text = "hi";
  EXPECT_EQ(
      encoder.chunk("T", said).dump(),
      R"({"model":"m:latest","created_at":"T","message":{"role":"assistant","content":"hi"},"done":false})");
  EXPECT_EQ(
      encoder.last("T", {}, {}, done(), kDurations).dump(),
      R"({"model":"m:latest","created_at":"T","message":{"role":"assistant","content":""},"done":true,"done_reason":"stop",)"
      R"("total_duration":5000,"load_duration":300,"prompt_eval_count":11,"prompt_eval_duration":1500000,)"
      R"("eval_count":5,"eval_duration":2250000})");
}

TEST(OllamaEncode, OL_09_calls_have_objects_and_thinking_is_apart) {
  const Encoder encoder(Endpoint::kChat, "m");
  Said said;
  said.thinking = "so";
  said.calls = {{"abc", false, "f", R"({"a":{"b":[1]}})", true}, {"own", true, "g", "", true}};
  EXPECT_EQ(encoder.chunk("T", said)["message"].dump(),
            R"({"role":"assistant","content":"","thinking":"so","tool_calls":[)"
            R"({"id":"call_abc","function":{"name":"f","arguments":{"a":{"b":[1]}}}},)"
            R"({"id":"own","function":{"name":"g","arguments":{}}}]})");
}

TEST(OllamaEncode, a_generation_has_its_context) {
  const Encoder encoder(Endpoint::kGenerate, "m");
  Said said;
  said.text = "hi";
  said.thinking = "so";
  chat::Finished finished;
  finished.reason = chat::FinishReason::kLength;
  const Json last = encoder.last("T", said, finished, done({1, 2}), kDurations);
  EXPECT_EQ(last["response"], "hi");
  EXPECT_EQ(last["thinking"], "so");
  EXPECT_EQ(last["done_reason"], "length");
  EXPECT_EQ(last["context"], Json::array({1, 2}));
  EXPECT_EQ(encoder.idle("T", "load").dump(),
            R"({"model":"m","created_at":"T","response":"","done":true,"done_reason":"load"})");
}

TEST(OllamaEncode, a_call_ends_a_chat_as_any_end) {
  chat::Finished finished;
  finished.reason = chat::FinishReason::kToolCalls;
  EXPECT_EQ(Encoder(Endpoint::kChat, "m").last("T", {}, finished, done(), kDurations)["done_reason"], "stop");
}

TEST(OllamaEncode, log_probabilities) {
  Said said;
  said.has_logprobs = true;
  said.logprobs = {{3, "a", -0.5f, {{4, "b", -1.0f, {}}}}};
  EXPECT_EQ(
      Encoder(Endpoint::kGenerate, "m").chunk("T", said)["logprobs"].dump(),
      R"([{"token":"a","logprob":-0.5,"bytes":[97],"top_logprobs":[{"token":"b","logprob":-1.0,"bytes":[98]}]}])");
}

TEST(OllamaTimes, are_rfc_3339_with_nanoseconds) {
  using std::chrono::nanoseconds;
  using Time = std::chrono::system_clock::time_point;
  const auto at = [](int64_t ns) {
    return time_text(Time(std::chrono::duration_cast<Time::duration>(nanoseconds(ns))));
  };
  EXPECT_EQ(at(0), "1970-01-01T00:00:00.000000000Z");
  EXPECT_EQ(at(1700000000123456789), "2023-11-14T22:13:20.123456789Z");
  EXPECT_EQ(time_text_ms(1700000000005), "2023-11-14T22:13:20.005000000Z");
}

TEST(OllamaModels, counts_are_short) {
  EXPECT_EQ(count_text(134515008), "134.52M");
  EXPECT_EQ(count_text(1543714304), "1.5B");
  EXPECT_EQ(count_text(27328), "27K");
  EXPECT_EQ(count_text(12), "12");
}

TEST(OllamaModels, OL_07_a_tag_has_all_fields) {
  library::Listing model;
  model.name = "org/name:Q4";
  model.facts.container = "gguf";
  model.facts.family = "llama";
  model.facts.quantisation = "Q4_1";
  model.facts.parameters = 134515008;
  model.facts.size_bytes = 5;
  model.facts.sha256 = std::string(64, 'a');
  model.modified_ms = 0;
  EXPECT_EQ(
      tag_json(model).dump(),
      R"({"name":"org/name:Q4","model":"org/name:Q4","modified_at":"1970-01-01T00:00:00.000000000Z","size":5,"digest":")" +
          std::string(64, 'a') +
          R"(","details":{"parent_model":"","format":"gguf","family":"llama","families":["llama"],)"
          R"("parameter_size":"134.52M","quantization_level":"Q4_1"}})");
  model.name = "plain";
  EXPECT_EQ(tag_json(model)["name"], "plain:latest");
  EXPECT_EQ(show_json(model)["capabilities"], Json::array({"completion"}));
  model.facts.calls_tools = model.facts.has_reasoning = true;
  model.facts.chat_template = "x";
  EXPECT_EQ(show_json(model)["capabilities"], Json::array({"completion", "tools", "thinking"}));
  model.preset = {"be brief", {{"temperature", 0.5}, {"stop", {"a", "b"}}}, {"MIT"}};
  model.parent = "base";
  const Json shown = show_json(model);
  EXPECT_EQ(shown["license"], "MIT");
  EXPECT_EQ(shown["system"], "be brief");
  EXPECT_NE(shown["parameters"].get<std::string>().find("stop" + std::string(27, ' ') + "\"b\""),
            std::string::npos);
  EXPECT_NE(shown["modelfile"].get<std::string>().find("FROM base:latest\nSYSTEM"), std::string::npos);
  EXPECT_EQ(running_json(model, {})["expires_at"], kNever);
  model.card.expires_in = std::chrono::milliseconds(1000);
  EXPECT_EQ(running_json(model, {})["expires_at"], "1970-01-01T00:00:01.000000000Z");
}

}  // namespace
}  // namespace penstock::api::ollama
