#include "api/responses/output.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "api/openai/encode.h"
#include "api/responses/items.h"
#include "api/whole_choice.h"

namespace penstock::api::responses {
namespace {

using base::Json;

Json entry_json(const chat::TokenLogprob& entry) {
  Json bytes = Json::array();
  for (const unsigned char byte : entry.bytes) bytes.push_back(byte);
  return {
      {"token", openai::token_text(entry.bytes)}, {"logprob", entry.logprob}, {"bytes", std::move(bytes)}};
}

Json entries_json(const std::vector<chat::TokenLogprob>& entries) {
  Json list = Json::array();
  for (const chat::TokenLogprob& entry : entries) {
    Json json = entry_json(entry);
    json["top_logprobs"] = Json::array();
    for (const chat::TokenLogprob& top : entry.top) json["top_logprobs"].push_back(entry_json(top));
    list.push_back(std::move(json));
  }
  return list;
}

}  // namespace

/// The fields that say which item an event is about.
Json Output::place() const {
  return {{"item_id", items_.back()["id"]}, {"output_index", items_.size() - 1}};
}

Json Output::place_in_part() const {
  Json fields = place();
  fields["content_index"] = 0;
  return fields;
}

/// The part of a message or of reasoning, as far as it is written.
Json Output::part() const {
  if (open_ == Open::kReasoning) return {{"type", "reasoning_text"}, {"text", text_}};
  Json json = {{"type", "output_text"}, {"text", text_}};
  json["annotations"] = Json::array();
  json["logprobs"] = entries_;
  return json;
}

/// The item that is open, as far as it is written.
Json Output::written(std::string_view status) const {
  Json item = items_.back();
  item["status"] = status;
  if (open_ == Open::kCall) {
    item["arguments"] = text_;
  } else {
    item["content"] = Json::array({part()});
  }
  if (open_ == Open::kReasoning && options_.carries_reasoning)
    item["encrypted_content"] = carried_reasoning(text_);
  return item;
}

std::vector<Json> Output::items() const {
  std::vector<Json> items = items_;
  if (open_ != Open::kNothing) items.back() = written("in_progress");
  return items;
}

void Output::open(Open kind, Json item) {
  close(open_ == Open::kCall ? "incomplete" : "completed");
  open_ = kind;
  text_.clear();
  entries_ = Json::array();
  items_.push_back(std::move(item));
  if (tell_)
    tell_("response.output_item.added", {{"output_index", items_.size() - 1}, {"item", items_.back()}});
}

void Output::open_part(Open kind, Json item) {
  open(kind, std::move(item));
  if (!tell_) return;
  Json fields = place_in_part();
  fields["part"] = part();
  tell_("response.content_part.added", std::move(fields));
}

void Output::open_message() {
  Json item = {
      {"id", make_id_("msg_")}, {"type", "message"}, {"status", "in_progress"}, {"role", "assistant"}};
  item["content"] = Json::array();
  open_part(Open::kMessage, std::move(item));
}

void Output::close_part(std::string_view done_type) {
  Json fields = place_in_part();
  fields["text"] = text_;
  if (open_ == Open::kMessage) fields["logprobs"] = entries_;
  tell_(done_type, std::move(fields));
  fields = place_in_part();
  fields["part"] = part();
  tell_("response.content_part.done", std::move(fields));
}

void Output::close(std::string_view status) {
  if (open_ == Open::kNothing) return;
  if (tell_) {
    if (open_ == Open::kReasoning) close_part("response.reasoning_text.done");
    if (open_ == Open::kMessage) close_part("response.output_text.done");
    if (open_ == Open::kCall) {
      Json fields = place();
      fields["name"] = items_.back()["name"];
      fields["arguments"] = text_;
      tell_("response.function_call_arguments.done", std::move(fields));
    }
  }
  items_.back() = written(status);
  open_ = Open::kNothing;
  if (tell_)
    tell_("response.output_item.done", {{"output_index", items_.size() - 1}, {"item", items_.back()}});
}

void Output::add(const chat::TextDelta& delta) {
  if (open_ != Open::kMessage) {
    if (delta.text.empty()) return;
    open_message();
  }
  text_ += delta.text;
  const Json entries = options_.logprobs ? entries_json(delta.logprobs) : Json::array();
  entries_.insert(entries_.end(), entries.begin(), entries.end());
  if (!tell_) return;
  Json fields = place_in_part();
  fields["delta"] = delta.text;
  fields["logprobs"] = entries;
  tell_("response.output_text.delta", std::move(fields));
}

void Output::add(const chat::ReasoningDelta& delta) {
  if (open_ != Open::kReasoning) {
    if (delta.text.empty()) return;
    Json item = {{"id", make_id_("rs_")}, {"type", "reasoning"}, {"status", "in_progress"}};
    item["summary"] = Json::array();
    item["content"] = Json::array();
    open_part(Open::kReasoning, std::move(item));
  }
  text_ += delta.text;
  if (!tell_) return;
  Json fields = place_in_part();
  fields["delta"] = delta.text;
  tell_("response.reasoning_text.delta", std::move(fields));
}

void Output::add(const chat::ToolCallStarted& started) {
  const auto grouped = names_.find(started.name);
  Json item = {{"id", make_id_("fc_")},
               {"type", "function_call"},
               {"status", "in_progress"},
               {"call_id", call_id("call_", started.id, started.is_own_id)},
               {"name", grouped == names_.end() ? started.name : grouped->second.name}};
  if (grouped != names_.end()) item["namespace"] = grouped->second.group;
  item["arguments"] = "";
  open(Open::kCall, std::move(item));
}

void Output::add(const chat::ToolCallDelta& delta) {
  text_ += delta.arguments;
  if (!tell_) return;
  Json fields = place();
  fields["delta"] = delta.arguments;
  tell_("response.function_call_arguments.delta", std::move(fields));
}

void Output::add(const chat::ToolCallFinished&) {
  close("completed");
}

void Output::finish(bool is_whole) {
  // A call that was cut is no JSON, whatever ended the answer.
  close(is_whole && open_ != Open::kCall ? "completed" : "incomplete");
  const bool has_answer =
      std::any_of(items_.begin(), items_.end(), [](const Json& item) { return item["type"] != "reasoning"; });
  if (has_answer || !is_whole) return;
  open_message();
  close("completed");
}

}  // namespace penstock::api::responses
