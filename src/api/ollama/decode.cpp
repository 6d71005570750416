#include "api/ollama/decode.h"

#include <algorithm>
#include <array>
#include <utility>

#include "api/ollama/fields.h"
#include "api/ollama/keep_alive.h"
#include "api/tools.h"
#include "base/error.h"

namespace penstock::api::ollama {
namespace {

using base::Code;
using base::Error;
using base::Json;

/// A field that is there in some clients' requests whether they mean it or not: empty is the same as absent.
bool is_empty(const Json* value) {
  if (value == nullptr) return true;
  if (value->is_string()) return value->get_ref<const std::string&>().empty();
  return (value->is_array() || value->is_object()) && value->empty();
}

/// What the template is told, and what the answer shows of it.
void read_think(const Reader& reader, chat::Conversation& conversation, Decoded& out) {
  const Json* think = reader.find("think");
  if (is_empty(think)) return;
  constexpr std::array<std::string_view, 3> kLevels = {"low", "medium", "high"};
  const bool is_level = think->is_string() &&
                        std::find(kLevels.begin(), kLevels.end(), think->get<std::string>()) != kLevels.end();
  if (!think->is_boolean() && !is_level) reader.reject("think", "true, false, low, medium or high");
  const bool thinks = is_level || think->get<bool>();
  conversation.template_kwargs = {{"enable_thinking", thinks}};
  if (is_level) conversation.template_kwargs["reasoning_effort"] = *think;
  conversation.needs_reasoning = thinks;
  out.shows_reasoning = thinks;
}

void read_logprobs(const Reader& reader, chat::Request& request) {
  const auto top = reader.integer("top_logprobs", 0, 20);
  request.logprobs = reader.boolean("logprobs").value_or(false);
  request.top_logprobs = static_cast<int32_t>(top.value_or(0));
  if (request.top_logprobs > 0 && !request.logprobs)
    reader.reject("top_logprobs", "absent unless logprobs is true");
}

void read_shared(const Reader& reader, const library::Preset& preset, Decoded& out) {
  out.stream = reader.boolean("stream").value_or(true);
  out.keep = read_keep_alive(reader);
  read_options(reader, preset.parameters, out);
  read_logprobs(reader, out.request);
  refuse_unless_empty(reader, "format", "structured output is not built yet");
}

chat::Message message_of(const char* role, std::string text) {
  chat::Message message;
  message.role = role;
  message.content = {chat::Part{std::move(text)}};
  return message;
}

std::vector<int32_t> read_context(const Reader& reader) {
  const Json* context = reader.find("context");
  if (context == nullptr) return {};
  const bool is_good =
      context->is_array() && std::all_of(context->begin(), context->end(), [](const Json& token) {
        return token.is_number_integer() && token.get<int64_t>() >= 0 && token.get<int64_t>() <= INT32_MAX;
      });
  if (!is_good) reader.reject("context", "the list of numbers of an earlier answer");
  return context->get<std::vector<int32_t>>();
}

void read_raw(const Reader& reader, std::string prompt, Decoded& out) {
  for (const char* name : {"template", "system", "context"}) {
    if (is_empty(reader.find(name))) continue;
    throw Error(Code::kInvalidRequest, "[api.decode] raw mode does not support template, system, or context",
                reader.path(name));
  }
  if (!is_empty(reader.find("think"))) out.ignored.push_back("think");
  out.request.input = chat::Completion{{std::move(prompt)}};
}

}  // namespace

void refuse_unless_empty(const Reader& reader, const char* name, const char* why) {
  if (is_empty(reader.find(name))) return;
  throw Error(Code::kUnsupported, std::string("[api.decode] expected no ") + reader.path(name) + ": " + why,
              reader.path(name));
}

std::string read_model(const Reader& reader) {
  std::string model = reader.string("model").value_or("");
  if (model.empty()) model = reader.string("name").value_or("");
  if (model.empty()) throw Error(Code::kInvalidRequest, "[api.decode] model is required", "model");
  return model;
}

Decoded decode_generate(const Json& body, const library::Preset& preset) {
  const Reader reader(body);
  Decoded out;
  out.ignored = unknown_fields(body, generate_fields());
  read_shared(reader, preset, out);
  refuse_unless_empty(reader, "suffix", "this model does not support insert");
  refuse_unless_empty(reader, "template", "a request does not bring its own template");
  check_no_images(reader);
  std::string prompt = reader.string("prompt").value_or("");
  out.is_load = prompt.empty();
  if (reader.boolean("raw").value_or(false)) {
    read_raw(reader, std::move(prompt), out);
    return out;
  }
  chat::Conversation conversation;
  read_think(reader, conversation, out);
  conversation.prior_tokens = read_context(reader);
  conversation.works_without_template = true;
  const std::string system = reader.string("system").value_or(preset.system);
  // An exchange that goes on has had its system message.
  if (!system.empty() && (conversation.prior_tokens.empty() || reader.find("system") != nullptr))
    conversation.messages.push_back(message_of("system", system));
  conversation.messages.push_back(message_of("user", std::move(prompt)));
  out.request.input = std::move(conversation);
  out.request.wants_tokens = true;
  return out;
}

Decoded decode_chat(const Json& body, const library::Preset& preset) {
  const Reader reader(body);
  Decoded out;
  out.ignored = unknown_fields(body, chat_fields());
  read_shared(reader, preset, out);
  chat::Conversation conversation;
  conversation.messages = decode_messages(reader);
  out.is_load = conversation.messages.empty();
  const bool has_system = std::any_of(conversation.messages.begin(), conversation.messages.end(),
                                      [](const chat::Message& message) { return message.role == "system"; });
  if (!has_system && !preset.system.empty())
    conversation.messages.insert(conversation.messages.begin(), message_of("system", preset.system));
  read_think(reader, conversation, out);
  if (const Json* tools = reader.find("tools"); !is_empty(tools))
    conversation.tools = read_tools(reader, "tools");
  out.request.input = std::move(conversation);
  return out;
}

}  // namespace penstock::api::ollama
