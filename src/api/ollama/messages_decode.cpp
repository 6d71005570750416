#include <algorithm>
#include <deque>
#include <utility>

#include <fmt/format.h>

#include "api/ollama/decode.h"

namespace penstock::api::ollama {
namespace {

using base::Json;

/// A call of the history that no tool message has answered yet.
struct OpenCall {
  std::string id, name;
};

/// The API knows no ids of calls; templates do, so each call gets one, and the answers that follow take them:
/// those that name their tool the first call of that name, others the first that is left.
class CallIds {
 public:
  std::string next(const std::string& name) {
    open_.push_back({fmt::format("call_{:09}", n_calls_++), name});
    return open_.back().id;
  }
  void note(const std::string& id, const std::string& name) { open_.push_back({id, name}); }

  std::string answer(const std::string& name) {
    auto found =
        std::find_if(open_.begin(), open_.end(), [&](const OpenCall& call) { return call.name == name; });
    if (found == open_.end() && name.empty()) found = open_.begin();
    if (found == open_.end()) return {};
    const std::string id = found->id;
    open_.erase(found);
    return id;
  }

 private:
  int n_calls_ = 0;
  std::deque<OpenCall> open_;
};

void read_calls(const Reader& message, CallIds& ids, chat::Message& out) {
  const Json* calls = message.find("tool_calls");
  if (calls == nullptr) return;
  if (!calls->is_array()) message.reject("tool_calls", "a list");
  for (size_t i = 0; i < calls->size(); ++i) {
    const Reader call((*calls)[i], message.path("tool_calls") + "[" + std::to_string(i) + "].");
    const Json* function = call.find("function");
    if (function == nullptr) call.reject("function", "an object with name and arguments");
    const Reader fields(*function, call.path("function."));
    const auto name = fields.string("name");
    if (!name) fields.reject("name", "a text");
    const Json* arguments = fields.find("arguments");
    if (arguments != nullptr && !arguments->is_object() && !arguments->is_string())
      fields.reject("arguments", "an object");
    const std::string text = arguments == nullptr     ? "{}"
                             : arguments->is_string() ? arguments->get<std::string>()
                                                      : arguments->dump();
    std::string id = call.string("id").value_or("");
    if (id.empty()) {
      id = ids.next(*name);
    } else {
      ids.note(id, *name);
    }
    out.tool_calls.push_back({std::move(id), *name, text});
  }
}

std::string read_role(const Reader& message) {
  const std::string role = message.string("role").value_or("");
  for (const std::string_view known : {"system", "user", "assistant", "tool"}) {
    if (role == known) return role;
  }
  message.reject("role", "system, user, assistant or tool");
}

chat::Message decode_message(const Json& value, const std::string& path, CallIds& ids) {
  const Reader fields(value, path + ".");
  chat::Message message;
  message.role = read_role(fields);
  message.content = {chat::Part{fields.string("content").value_or("")}};
  check_no_images(fields);
  if (message.role == "assistant") {
    message.reasoning = fields.string("thinking").value_or("");
    read_calls(fields, ids, message);
  }
  if (message.role == "tool") {
    message.name = fields.string("tool_name").value_or(fields.string("name").value_or(""));
    message.tool_call_id = fields.string("tool_call_id").value_or("");
    const std::string open = ids.answer(message.name);
    if (message.tool_call_id.empty()) message.tool_call_id = open;
  }
  return message;
}

}  // namespace

void check_no_images(const Reader& reader) {
  refuse_unless_empty(reader, "images", "the models of this server read text only");
}

std::vector<chat::Message> decode_messages(const Reader& reader) {
  const Json* list = reader.find("messages");
  std::vector<chat::Message> messages;
  if (list == nullptr) return messages;
  if (!list->is_array()) reader.reject("messages", "a list of messages");
  CallIds ids;
  for (size_t i = 0; i < list->size(); ++i) {
    messages.push_back(decode_message((*list)[i], "messages[" + std::to_string(i) + "]", ids));
  }
  return messages;
}

}  // namespace penstock::api::ollama
