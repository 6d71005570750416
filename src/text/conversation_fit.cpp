#include "text/conversation_fit.h"

#include <algorithm>

#include "base/error.h"

namespace penstock::text {
namespace {

using base::Json;

bool is_text_part(const Json& part) {
  return part.is_object() && part.value("type", "") == "text" && part.contains("text") &&
         part["text"].is_string();
}

std::string role_of(const Json& message) {
  return message.is_object() ? message.value("role", "") : "";
}

// A message that is nothing but a role and a text (a name or an unknown key does not count).
bool is_plain(const Json& message) {
  return message.is_object() && message.contains("content") && message["content"].is_string() &&
         !message.contains("tool_calls") && !message.contains("tool_call_id");
}

void append_text(Json& to, const Json& from) {
  to["content"] = to["content"].get<std::string>() + "\n\n" + from["content"].get<std::string>();
}

}  // namespace

bool takes_content_parts(const ChatTemplate& chat_template) {
  const std::string word = "PARTPROBE";
  const Json part = {{"type", "text"}, {"text", word}};
  const Json message = {{"role", "user"}, {"content", Json::array({part})}};
  try {
    const std::string text = chat_template.render({{"messages", Json::array({message})}});
    // A template that knows only texts prints the list itself.
    return text.find(word) != std::string::npos && text.find("'type'") == std::string::npos &&
           text.find("\"type\"") == std::string::npos;
  } catch (const base::Error&) {
    return false;
  }
}

void join_text_parts(Json& messages) {
  for (Json& message : messages) {
    if (!message.is_object() || !message.contains("content") || !message["content"].is_array()) continue;
    Json& content = message["content"];
    if (!std::ranges::all_of(content, is_text_part)) continue;
    std::string joined;
    for (const Json& part : content) {
      if (&part != &content.front()) joined += '\n';
      joined += part["text"].get<std::string>();
    }
    content = joined;
  }
}

void merge_turns(Json& messages) {
  Json system;
  Json merged = Json::array();
  for (const Json& message : messages) {
    const std::string role = role_of(message);
    if (is_plain(message) && role == "system") {
      if (system.is_null()) {
        system = message;
      } else {
        append_text(system, message);
      }
    } else if (is_plain(message) && role == "user" && !merged.empty() && role_of(merged.back()) == "user" &&
               is_plain(merged.back())) {
      append_text(merged.back(), message);
    } else {
      merged.push_back(message);
    }
  }
  if (!system.is_null()) merged.insert(merged.begin(), system);
  messages = std::move(merged);
}

std::string render_fitted(const ChatTemplate& chat_template, Json context) {
  Json& messages = context["messages"];
  const bool has_parts = std::ranges::any_of(messages, [](const Json& message) {
    return message.is_object() && message.contains("content") && message["content"].is_array();
  });
  if (has_parts && !takes_content_parts(chat_template)) join_text_parts(messages);
  try {
    return chat_template.render(context);
  } catch (const base::Error& refusal) {
    if (refusal.code() != base::Code::kInvalidRequest) throw;
    const Json before = messages;
    merge_turns(messages);
    if (messages == before) throw;
    try {
      return chat_template.render(context);
    } catch (const base::Error&) {
      throw refusal;
    }
  }
}

}  // namespace penstock::text
