#include "chat/message.h"

#include <algorithm>

namespace penstock::chat {
namespace {

using base::Json;

Json arguments_json(const std::string& arguments) {
  if (arguments.empty()) return Json::object();
  Json value = Json::parse(arguments, nullptr, false);
  return value.is_object() ? value : Json(arguments);
}

bool is_system(const Message& message) {
  return message.role == "system";
}

}  // namespace

std::string Message::text() const {
  std::string joined;
  if (!content) return joined;
  for (const Part& part : *content) joined += part.text;
  return joined;
}

Json to_template_json(const Message& message) {
  Json out = {{"role", message.role}, {"content", message.text()}};
  if (!message.name.empty()) out["name"] = message.name;
  if (!message.reasoning.empty()) out["reasoning_content"] = message.reasoning;
  if (!message.tool_call_id.empty()) out["tool_call_id"] = message.tool_call_id;
  if (!message.tool_calls.empty()) {
    Json& calls = out["tool_calls"] = Json::array();
    for (const ToolCall& call : message.tool_calls) {
      calls.push_back({{"id", call.id},
                       {"type", "function"},
                       {"function", {{"name", call.name}, {"arguments", arguments_json(call.arguments)}}}});
    }
  }
  return out;
}

bool has_late_system(const std::vector<Message>& messages) {
  return std::any_of(messages.begin() + (messages.empty() ? 0 : 1), messages.end(), is_system);
}

std::vector<Message> with_merged_system(const std::vector<Message>& messages) {
  std::string joined;
  std::vector<Message> rest;
  for (const Message& message : messages) {
    if (!is_system(message)) {
      rest.push_back(message);
      continue;
    }
    if (!joined.empty()) joined += "\n\n";
    joined += message.text();
  }
  if (rest.size() == messages.size()) return messages;
  Message system;
  system.role = "system";
  system.content = {Part{std::move(joined)}};
  rest.insert(rest.begin(), std::move(system));
  return rest;
}

}  // namespace penstock::chat
