// One message of a conversation as every API surface understands it, and the shape in which chat templates
// read it. Plain data.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/json.h"

namespace penstock::chat {

/// A piece of a message's content. Text is the only kind yet.
struct Part {
  std::string text;
};

/// A call that an assistant message of the history made.
struct ToolCall {
  std::string id;
  std::string name;
  std::string arguments;  // JSON text as the client sent it; not always valid
};

struct Message {
  std::string role;                          // system, user, assistant or tool
  std::optional<std::vector<Part>> content;  // absent: null, as beside tool calls
  std::string name;                          // empty: none
  std::string reasoning;                     // what the assistant thought; empty: none
  std::vector<ToolCall> tool_calls;
  std::string tool_call_id;  // of a tool message

  /// The text of all parts. An absent content is empty.
  std::string text() const;
};

/// {"role", "content", ...} for a template: parts joined to one text, null content as "", call arguments as
/// an object where they are one (templates walk them), else as the text they are.
base::Json to_template_json(const Message& message);

/// The conversation with all system messages joined to one at its front and neighbouring messages of one user
/// or of the assistant, without calls, joined, for templates that refuse anything else; texts are joined by
/// an empty line. Nothing if that changes nothing.
std::optional<std::vector<Message>> merged_turns(const std::vector<Message>& messages);

}  // namespace penstock::chat
