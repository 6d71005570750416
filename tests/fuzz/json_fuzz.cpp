// JSON from clients: the reader against the library's own, and the decoder of every surface's request. The
// first byte says which body it is.
#include <array>
#include <limits>

#include "api/admin/body.h"
#include "api/body.h"
#include "api/openai/decode.h"
#include "api/reader.h"
#include "base/json_reader.h"
#include "chat/message.h"
#include "fuzz/target.h"

namespace penstock::fuzz {
namespace {

using base::Json;

/// What one reader takes, the other takes, and it says the same.
void compare_readers(std::string_view text) {
  const Json other = Json::parse(text, nullptr, false);
  bool is_deep = false;
  Json mine;
  try {
    mine = base::read_json(text, "the text", {});
  } catch (const base::Error& error) {
    is_deep = std::string_view(error.what()).find("nested at most") != std::string_view::npos;
    expect(other.is_discarded() || is_deep, "valid JSON is refused");
    return;
  }
  expect(!other.is_discarded(), "invalid JSON is taken");
  const std::string written = mine.dump(-1, ' ', false, Json::error_handler_t::replace);
  expect(written == other.dump(-1, ' ', false, Json::error_handler_t::replace),
         "JSON is read as another value");
  const bool again = base::read_json(written, "the text", {}) == mine;
  expect(again || written.find("null") != std::string::npos, "JSON is not read as it is written");
}

void use(const api::openai::Decoded& decoded) {
  if (const auto* chat = std::get_if<chat::Conversation>(&decoded.request.input)) {
    for (const chat::Message& message : chat->messages) chat::to_template_json(message).dump();
  }
  for (const std::string& name : decoded.ignored) expect(name.size() < (1 << 20), "an endless name");
}

void decode(uint8_t surface, const http::Request& request) {
  switch (surface % 4) {
    case 0:
      return use(api::openai::decode_chat(api::parse_body(request)));
    case 1:
      return use(api::openai::decode_completion(api::parse_body(request)));
    case 2: {
      const Json body = api::admin::read_body(request, {"model", "pin", "timeout_ms"});
      const api::Reader reader(body);
      reader.string("model");
      reader.boolean("pin");
      reader.integer("timeout_ms", 0, 86'400'000);
      return;
    }
    default:
      base::parse_python_json(request.body, "the file").dump();
  }
}

}  // namespace

std::vector<std::string> seeds() {
  const std::array<const char*, 4> chats = {
      R"({"model":"m","messages":[{"role":"user","content":"hi"}],"temperature":0.5,"top_p":1,"n":2,"stop":["a","b"],)"
      R"("seed":-1,"logit_bias":{"12":-100,"3":null},"stream":true,"stream_options":{"include_usage":true}})",
      R"({"messages":[{"role":"developer","content":[{"type":"text","text":"\ud83d\ude00"},{"type":"refusal","refusal":"no"}]},)"
      R"({"role":"assistant","content":null,"reasoning_content":"r","tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":{"a":[1]}}}]},)"
      R"({"role":"tool","tool_call_id":"c","content":"3","name":"f"}],"tools":[{"type":"function","function":{"name":"f","parameters":{}}}],"tool_choice":"auto"})",
      R"({"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:"}}]}],"reasoning_effort":"low",)"
      R"("chat_template_kwargs":{"x":1.5e3},"modalities":["text"],"logprobs":true,"top_logprobs":3,"priority":1,"timeout_ms":5})",
      R"({"messages":[{"role":"user","content":"a"}],"response_format":{"type":"json_schema"},"cache_salt":"s","continue_final_message":true})"};
  std::vector<std::string> out;
  for (const char* body : chats) out.push_back(std::string(1, '\0') + body);
  for (const char* body :
       {R"({"prompt":["a","b"],"max_tokens":7,"echo":true,"suffix":"s","best_of":2,"logprobs":5})",
        R"({"prompt":[[1,2,3],[4]],"model":"m:p","cache_prompt":false})",
        R"({"prompt":[1,2,3],"priority":"batch"})"})
    out.push_back(std::string(1, '\1') + body);
  out.push_back(std::string(1, '\2') + R"({"model":"m","pin":true,"timeout_ms":10})");
  out.push_back(std::string(1, '\3') + "\xEF\xBB\xBF" + R"({"a":NaN,"b":[-Infinity,"NaN"],"a":2})");
  out.push_back(std::string(1, '\3') + std::string(130, '[') + std::string(130, ']'));
  return out;
}

std::vector<std::string> words() {
  return {"\"role\"",
          "\"tool_calls\"",
          "\"content\"",
          "null",
          "true",
          "{}",
          "[]",
          "\"\"",
          "1e999",
          "-0.0",
          "18446744073709551616",
          "-9223372036854775809",
          "9223372036854775808",
          "\\ud800",
          "\\u0000",
          "\xED\xA0\x80",
          "\"logit_bias\":{\"2147483648\":1}",
          "NaN",
          "Infinity",
          "\"include_usage\"",
          "\"text\"",
          "\"n\":0",
          ",",
          ":"};
}

}  // namespace penstock::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace penstock;
  if (size == 0) return 0;
  const fuzz::Exact input(data + 1, size - 1);
  const std::string_view text = input.text();
  http::Request request;
  request.headers = {{"Content-Type", "application/json"}};
  request.body = std::string(text);
  fuzz::refusable([&] { fuzz::compare_readers(text); });
  fuzz::refusable([&] { fuzz::decode(data[0], request); });
  base::is_nested_deeper(text, 8);
  return 0;
}
