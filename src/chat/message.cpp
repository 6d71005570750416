#include "chat/message.h"

namespace penstock::chat {
namespace {

using base::Json;

Json arguments_json(const std::string& arguments) {
  if (arguments.empty()) return Json::object();
  Json value = Json::parse(arguments, nullptr, false);
  return value.is_object() ? value : Json(arguments);
}

/// Calls must stay before what follows them.
bool is_one_turn(const Message& first, const Message& second) {
  const bool is_speech = first.role == "user" ||
                         (first.role == "assistant" && first.tool_calls.empty() && second.tool_calls.empty());
  return is_speech && first.role == second.role && first.name == second.name;
}

Message joined(Message first, const Message& second) {
  first.content = {Part{first.text() + "\n\n" + second.text()}};
  first.reasoning += second.reasoning;
  return first;
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

std::optional<std::vector<Message>> merged_turns(const std::vector<Message>& messages) {
  std::optional<Message> system;
  std::vector<Message> rest;
  bool changed = false;
  for (const Message& message : messages) {
    if (message.role == "system") {
      changed = changed || system || !rest.empty();
      system = system ? joined(std::move(*system), message) : message;
    } else if (!rest.empty() && is_one_turn(rest.back(), message)) {
      changed = true;
      rest.back() = joined(std::move(rest.back()), message);
    } else {
      rest.push_back(message);
    }
  }
  if (!changed) return std::nullopt;
  if (system) rest.insert(rest.begin(), std::move(*system));
  return rest;
}

}  // namespace penstock::chat
