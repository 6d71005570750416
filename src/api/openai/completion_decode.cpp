#include "api/openai/decode.h"
#include "api/openai/fields.h"
#include "base/error.h"

namespace penstock::api::openai {
namespace {

using base::Code;
using base::Error;
using base::Json;

constexpr int64_t kDefaultMaxTokens = 16;  // as the official endpoint
constexpr size_t kMaxPrompts = 64;
constexpr int64_t kMaxLogprobs = 20;

chat::Completion decode_prompts(const Reader& reader) {
  constexpr const char* kExpected =
      "a text, a list of up to 64 texts, token ids, or a list of up to 64 lists of token ids";
  const Json* prompt = reader.find("prompt");
  chat::Completion completion;
  if (prompt == nullptr) reader.reject("prompt", kExpected);
  const Json list = prompt->is_string() || is_token_ids(*prompt) ? Json::array({*prompt}) : *prompt;
  if (!list.is_array() || list.empty() || list.size() > kMaxPrompts) reader.reject("prompt", kExpected);
  for (const Json& entry : list) {
    if (entry.is_string()) {
      completion.prompts.emplace_back(entry.get<std::string>());
    } else if (is_token_ids(entry)) {
      completion.prompts.emplace_back(entry.get<std::vector<int32_t>>());
    } else {
      reader.reject("prompt", kExpected);
    }
  }
  return completion;
}

/// Fields whose neutral value is honoured and whose others are not built.
void check_unbuilt(const Reader& reader, int32_t n) {
  const auto refuse = [](const std::string& name) {
    throw Error(Code::kUnsupported, "[api.decode] expected no " + name + ": it is not built yet", name);
  };
  if (reader.boolean("echo").value_or(false)) refuse("echo");
  if (!reader.string("suffix").value_or("").empty()) refuse("suffix");
  if (reader.integer("best_of", 1).value_or(n) != n) refuse("best_of");
}

}  // namespace

Decoded decode_completion(const Json& body) {
  const Reader reader(body);
  Decoded out;
  out.ignored = unknown_fields(body, completion_fields());
  read_shared(reader, out);
  if (!out.request.max_tokens) out.request.max_tokens = kDefaultMaxTokens;
  if (const auto logprobs = reader.integer("logprobs", 0, kMaxLogprobs)) {
    out.request.logprobs = true;
    out.request.top_logprobs = static_cast<int32_t>(*logprobs);
  }
  check_unbuilt(reader, out.request.n);
  out.request.input = decode_prompts(reader);
  return out;
}

}  // namespace penstock::api::openai
