#include "api/responses/items.h"

#include <algorithm>
#include <utility>

#include "api/surface.h"
#include "base/error.h"

namespace penstock::api::responses {
namespace {

using base::Code;
using base::Error;
using base::Json;

constexpr std::string_view kCarried = "penstock:";

Error unsupported(const std::string& what, const std::string& path) {
  return {
      Code::kUnsupported,
      "[responses.items] expected text, calls and reasoning; got " + what + ", which is not supported here",
      path};
}

std::string required(const Reader& reader, std::string_view name) {
  const auto value = reader.string(name);
  if (!value) reader.reject(name, "a text");
  return *value;
}

/// The item with what every item has, and all that its client gave it.
Json with_head(const Json& value, const Reader& fields, const char* type, const char* id_prefix) {
  Json item = {{"id", fields.string("id").value_or("")},
               {"type", type},
               {"status", fields.string("status").value_or("completed")}};
  if (item["id"] == "") item["id"] = make_id(id_prefix);
  for (const auto& [key, field] : value.items())
    if (!item.contains(key)) item[key] = field;
  return item;
}

Json text_part(const std::string& text, bool is_answer) {
  Json part = {{"type", is_answer ? "output_text" : "input_text"}, {"text", text}};
  if (is_answer) part["annotations"] = Json::array();
  return part;
}

Json read_file_part(const Reader& part) {
  for (const char* other : {"file_data", "file_url"}) {
    if (part.find(other) != nullptr)
      throw unsupported("a file by its " + std::string(other) + " (use file_id)", part.path(other));
  }
  return {{"type", "input_file"}, {"file_id", required(part, "file_id")}};
}

Json read_part(const Json& value, const std::string& path, bool is_answer) {
  const Reader part(value, path + ".");
  const std::string type = part.string("type").value_or("");
  if (type == "input_text" || type == "output_text" || type == "text")
    return text_part(required(part, "text"), is_answer);
  if (type == "refusal") return {{"type", "refusal"}, {"refusal", required(part, "refusal")}};
  if (type == "input_file") return read_file_part(part);
  if (type == "input_image" || type == "input_audio" || type == "input_video")
    throw unsupported("a part of type " + type, path);
  part.reject("type", "input_text, output_text, refusal or input_file");
}

Json read_content(const Reader& fields, std::string_view name, bool is_answer) {
  const Json* content = fields.find(name);
  if (content == nullptr) fields.reject(name, "a text or a list of parts");
  Json parts = Json::array();
  if (content->is_string()) {
    parts.push_back(text_part(content->get<std::string>(), is_answer));
    return parts;
  }
  if (!content->is_array()) fields.reject(name, "a text or a list of parts");
  for (size_t i = 0; i < content->size(); ++i)
    parts.push_back(read_part((*content)[i], fields.path(name) + "[" + std::to_string(i) + "]", is_answer));
  return parts;
}

Json read_message(const Json& value, const Reader& fields) {
  const std::string role = fields.string("role").value_or("");
  if (role != "user" && role != "assistant" && role != "system" && role != "developer")
    fields.reject("role", "user, assistant, system or developer");
  Json item = with_head(value, fields, "message", "msg_");
  item["content"] = read_content(fields, "content", role == "assistant");
  return item;
}

Json read_call(const Json& value, const Reader& fields) {
  Json item = with_head(value, fields, "function_call", "fc_");
  for (const char* name : {"call_id", "name"}) item[name] = required(fields, name);
  fields.string("namespace");
  const Json* arguments = fields.find("arguments");
  if (arguments == nullptr || !arguments->is_string())
    fields.reject("arguments", "a text with a JSON object");
  return item;
}

Json read_call_output(const Json& value, const Reader& fields) {
  Json item = with_head(value, fields, "function_call_output", "fco_");
  item["call_id"] = required(fields, "call_id");
  const Json* output = fields.find("output");
  if (output == nullptr || !output->is_string()) item["output"] = read_content(fields, "output", false);
  return item;
}

/// A list of parts with a text each.
void check_texts(const Reader& fields, std::string_view name) {
  const Json* list = fields.find(name);
  if (list == nullptr) return;
  if (!list->is_array()) fields.reject(name, "a list of parts");
  for (size_t i = 0; i < list->size(); ++i)
    required(Reader((*list)[i], fields.path(name) + "[" + std::to_string(i) + "]."), "text");
}

Json read_reasoning(const Json& value, const Reader& fields) {
  check_texts(fields, "summary");
  check_texts(fields, "content");
  Json item = with_head(value, fields, "reasoning", "rs_");
  if (!item.contains("summary")) item["summary"] = Json::array();
  return item;
}

Json read_item(const Json& value, const std::string& path) {
  const Reader fields(value, path + ".");
  const auto type = fields.string("type").value_or("message");
  if (type == "message") return read_message(value, fields);
  if (type == "function_call") return read_call(value, fields);
  if (type == "function_call_output") return read_call_output(value, fields);
  if (type == "reasoning") return read_reasoning(value, fields);
  if (type == "item_reference") return {{"type", type}, {"id", required(fields, "id")}};
  throw unsupported("an item of type " + type, path + ".type");
}

/// Builds messages; what the assistant said in one go is held until something else follows.
class Conversation {
 public:
  explicit Conversation(const std::map<std::string, FileText>& files) : files_(files) {}

  void add(const Json& item) {
    const std::string type = item.value("type", "");
    if (type == "message") {
      add_message(item);
    } else if (type == "function_call") {
      add_call(item);
    } else if (type == "function_call_output") {
      add_output(item);
    } else if (type == "reasoning") {
      add_reasoning(item);
    }
  }

  std::vector<chat::Message> finish() {
    end_turn();
    return std::move(messages_);
  }

 private:
  chat::Message& turn() {
    if (!turn_) turn_.emplace().role = "assistant";
    return *turn_;
  }

  void end_turn() {
    if (!turn_) return;
    // What was thought and led to nothing is not shown again.
    if (turn_->content || !turn_->tool_calls.empty()) messages_.push_back(std::move(*turn_));
    turn_.reset();
  }

  std::vector<chat::Part> parts(const Json& content) const {
    std::vector<chat::Part> out;
    if (content.is_string()) return {chat::Part{content.get<std::string>()}};
    for (const Json& part : content) {
      if (part["type"] == "input_file") {
        const FileText& file = files_.at(part["file_id"].get<std::string>());
        out.push_back({"File " + file.name + ":\n" + file.text + "\n\n"});
      } else {
        out.push_back({part.value("text", part.value("refusal", ""))});
      }
    }
    return out;
  }

  void add_message(const Json& item) {
    const std::string role = item["role"].get<std::string>();
    if (role == "assistant") {
      if (turn_ && (turn_->content || !turn_->tool_calls.empty())) end_turn();
      turn().content = parts(item["content"]);
      return;
    }
    end_turn();
    chat::Message message;
    message.role = role == "developer" ? "system" : role;
    message.content = parts(item["content"]);
    messages_.push_back(std::move(message));
  }

  void add_reasoning(const Json& item) {
    if (turn_ && (turn_->content || !turn_->tool_calls.empty())) end_turn();
    const Json none = Json::array();
    const auto list = [&](const char* name) -> const Json& {
      const auto found = item.find(name);
      return found == item.end() || !found->is_array() ? none : *found;
    };
    const Json& content = list("content").empty() ? list("summary") : list("content");
    const std::string carried = item.contains("encrypted_content") && item["encrypted_content"].is_string()
                                    ? item["encrypted_content"].get<std::string>()
                                    : "";
    if (content.empty() && carried.starts_with(kCarried)) turn().reasoning += carried.substr(kCarried.size());
    for (const Json& part : content) turn().reasoning += part.value("text", "");
  }

  void add_call(const Json& item) {
    const ToolName name{item.contains("namespace") && item["namespace"].is_string()
                            ? item["namespace"].get<std::string>()
                            : "",
                        item["name"].get<std::string>()};
    const auto call_id = item["call_id"].get<std::string>();
    turn().tool_calls.push_back({call_id, shown_name(name), item["arguments"].get<std::string>()});
    calls_.push_back(call_id);
  }

  void add_output(const Json& item) {
    end_turn();
    chat::Message message;
    message.role = "tool";
    message.tool_call_id = item["call_id"].get<std::string>();
    if (std::find(calls_.begin(), calls_.end(), message.tool_call_id) == calls_.end()) {
      throw Error(Code::kInvalidRequest,
                  "[responses.items] expected a function_call before its output; got an output for " +
                      message.tool_call_id + " alone",
                  "input");
    }
    message.content = parts(item["output"]);
    messages_.push_back(std::move(message));
  }

  const std::map<std::string, FileText>& files_;
  std::vector<chat::Message> messages_;
  std::vector<std::string> calls_;  // ids of all so far
  std::optional<chat::Message> turn_;
};

}  // namespace

std::vector<Json> read_input(const Reader& reader) {
  const Json* input = reader.find("input");
  if (input == nullptr) return {};
  if (input->is_string()) return {read_item({{"role", "user"}, {"content", *input}}, "input")};
  if (!input->is_array()) reader.reject("input", "a text or a list of items");
  std::vector<Json> items;
  for (size_t i = 0; i < input->size(); ++i)
    items.push_back(read_item((*input)[i], "input[" + std::to_string(i) + "]"));
  return items;
}

std::string carried_reasoning(const std::string& text) {
  return std::string(kCarried) + text;
}

std::vector<std::string> references_in(const std::vector<Json>& items) {
  std::vector<std::string> ids;
  for (const Json& item : items)
    if (item["type"] == "item_reference") ids.push_back(item["id"].get<std::string>());
  return ids;
}

std::vector<std::string> files_in(const std::vector<Json>& items) {
  std::vector<std::string> ids;
  for (const Json& item : items) {
    for (const char* name : {"content", "output"}) {
      const auto parts = item.find(name);
      if (parts == item.end() || !parts->is_array()) continue;
      for (const Json& part : *parts)
        if (part.value("type", "") == "input_file") ids.push_back(part["file_id"].get<std::string>());
    }
  }
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  return ids;
}

std::vector<Json> resolved(std::vector<Json> items, const std::map<std::string, Json>& references) {
  for (Json& item : items)
    if (item["type"] == "item_reference") item = references.at(item["id"].get<std::string>());
  return items;
}

std::vector<chat::Message> to_messages(const std::vector<Json>& items,
                                       const std::map<std::string, FileText>& files) {
  Conversation conversation(files);
  for (const Json& item : items) conversation.add(item);
  return conversation.finish();
}

}  // namespace penstock::api::responses
