#include <algorithm>
#include <array>

#include "api/openai/decode.h"
#include "base/error.h"

namespace penstock::api::openai {
namespace {

using base::Code;
using base::Error;
using base::Json;

constexpr std::array<std::string_view, 3> kMediaParts = {"image_url", "input_audio", "file"};

chat::Part decode_part(const Json& value, const std::string& path) {
  const Reader part(value, path + ".");
  const std::string type = part.string("type").value_or("");
  if (type == "text" || type == "refusal") {
    const auto text = part.string(type);
    if (!text) part.reject(type, "a text");
    return {*text};
  }
  if (type == "image_url") {
    const Json* image = part.find("image_url");
    if (image == nullptr || !image->is_object() || !image->contains("url")) {
      part.reject("image_url", "an object with a url");
    }
  }
  if (std::find(kMediaParts.begin(), kMediaParts.end(), type) != kMediaParts.end()) {
    throw Error(Code::kUnsupported,
                "[api.decode] expected text content: this model reads no " + type + " parts", path);
  }
  part.reject("type", "text, image_url, input_audio or file");
}

std::optional<std::vector<chat::Part>> decode_content(const Reader& message) {
  const Json* content = message.find("content");
  if (content == nullptr) return std::nullopt;
  std::vector<chat::Part> parts;
  if (content->is_string()) {
    parts.push_back({content->get<std::string>()});
    return parts;
  }
  if (!content->is_array()) message.reject("content", "a text or a list of parts");
  for (size_t i = 0; i < content->size(); ++i) {
    parts.push_back(decode_part((*content)[i], message.path("content") + "[" + std::to_string(i) + "]"));
  }
  return parts;
}

std::vector<chat::ToolCall> decode_tool_calls(const Reader& message) {
  const Json* calls = message.find("tool_calls");
  std::vector<chat::ToolCall> out;
  if (calls == nullptr) return out;
  if (!calls->is_array()) message.reject("tool_calls", "a list");
  for (size_t i = 0; i < calls->size(); ++i) {
    const std::string path = message.path("tool_calls") + "[" + std::to_string(i) + "].";
    const Reader call((*calls)[i], path);
    const Json* function = call.find("function");
    if (function == nullptr) call.reject("function", "an object with name and arguments");
    const Reader fields(*function, path + "function.");
    const auto name = fields.string("name");
    if (!name) fields.reject("name", "a text");
    // Some clients send the object itself instead of its text.
    const Json* arguments = fields.find("arguments");
    const std::string text = arguments == nullptr     ? ""
                             : arguments->is_string() ? arguments->get<std::string>()
                                                      : arguments->dump();
    out.push_back({call.string("id").value_or(""), *name, text});
  }
  return out;
}

std::string decode_role(const Reader& message) {
  const std::string role = message.string("role").value_or("");
  if (role == "developer") return "system";
  for (const std::string_view known : {"system", "user", "assistant", "tool"}) {
    if (role == known) return role;
  }
  message.reject("role", "system, developer, user, assistant or tool");
}

chat::Message decode_message(const Json& value, const std::string& path) {
  const Reader fields(value, path + ".");
  chat::Message message;
  message.role = decode_role(fields);
  message.content = decode_content(fields);
  message.name = fields.string("name").value_or("");
  if (message.role == "assistant") {
    message.tool_calls = decode_tool_calls(fields);
    message.reasoning = fields.string("reasoning_content").value_or(fields.string("reasoning").value_or(""));
  }
  if (message.role == "tool") message.tool_call_id = fields.string("tool_call_id").value_or("");
  if (!message.content && message.role != "assistant") fields.reject("content", "a text or a list of parts");
  return message;
}

}  // namespace

std::vector<chat::Message> decode_messages(const Reader& reader) {
  const Json* list = reader.find("messages");
  if (list == nullptr || !list->is_array() || list->empty())
    reader.reject("messages", "a list of at least one message");
  std::vector<chat::Message> messages;
  for (size_t i = 0; i < list->size(); ++i) {
    messages.push_back(decode_message((*list)[i], "messages[" + std::to_string(i) + "]"));
  }
  return messages;
}

}  // namespace penstock::api::openai
