#include <algorithm>
#include <array>

#include "api/effort.h"
#include "api/openai/decode.h"
#include "api/openai/fields.h"
#include "api/tools.h"
#include "base/error.h"

namespace penstock::api::openai {
namespace {

using base::Code;
using base::Error;
using base::Json;

void read_tool_fields(const Reader& reader, chat::Conversation& conversation) {
  if (reader.find("tools") != nullptr) conversation.tools = read_tools(reader, "tools");
  if (const Json* choice = reader.find("tool_choice")) {
    const bool is_word = *choice == "none" || *choice == "auto" || *choice == "required";
    if (!is_word && !choice->is_object()) reader.reject("tool_choice", "none, auto, required or an object");
    conversation.tool_choice = *choice;
  }
  conversation.parallel_tool_calls = reader.boolean("parallel_tool_calls").value_or(true);
}

void read_template_fields(const Reader& reader, chat::Conversation& conversation) {
  constexpr std::array<std::string_view, 7> kReserved = {"messages",
                                                         "tools",
                                                         "documents",
                                                         "add_generation_prompt",
                                                         "continue_final_message",
                                                         "chat_template_kwargs",
                                                         "bos_token"};
  if (const Json* kwargs = reader.find("chat_template_kwargs")) {
    const Reader fields(*kwargs, "chat_template_kwargs.");
    for (const std::string_view name : kReserved) {
      if (fields.find(name) != nullptr) fields.reject(name, "absent: the server sets it");
    }
    conversation.template_kwargs = *kwargs;
  }
  read_effort(reader, "reasoning_effort", conversation);
  const auto add_prompt = reader.boolean("add_generation_prompt");
  conversation.continue_final_message = reader.boolean("continue_final_message").value_or(false);
  conversation.add_generation_prompt = add_prompt.value_or(true);
  if (conversation.continue_final_message && add_prompt == true) {
    reader.reject("continue_final_message", "false beside add_generation_prompt true");
  }
}

void check_modalities(const Reader& reader) {
  const Json* modalities = reader.find("modalities");
  if (modalities == nullptr || *modalities == Json::array({"text"})) return;
  throw Error(Code::kUnsupported, "[api.decode] expected modalities [\"text\"]; got " + shown(*modalities),
              "modalities");
}

void read_logprobs(const Reader& reader, chat::Request& request) {
  request.logprobs = reader.boolean("logprobs").value_or(false);
  const auto top = reader.integer("top_logprobs", 0, 20);
  if (top && !request.logprobs) reader.reject("top_logprobs", "absent unless logprobs is true");
  request.top_logprobs = static_cast<int32_t>(top.value_or(0));
}

}  // namespace

Decoded decode_chat(const Json& body) {
  const Reader reader(body);
  Decoded out;
  out.ignored = unknown_fields(body, chat_fields());
  read_shared(reader, out);
  if (const auto tokens = reader.integer("max_completion_tokens", 1)) out.request.max_tokens = tokens;
  read_logprobs(reader, out.request);
  check_modalities(reader);
  // Nothing is stored yet: "store": false is what happens, true is not.
  if (reader.boolean("store").value_or(false)) out.ignored.push_back("store");
  chat::Conversation conversation;
  conversation.messages = decode_messages(reader);
  read_tool_fields(reader, conversation);
  read_template_fields(reader, conversation);
  out.request.input = std::move(conversation);
  return out;
}

}  // namespace penstock::api::openai
