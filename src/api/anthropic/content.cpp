#include "api/anthropic/content.h"

#include <utility>

#include "api/whole_choice.h"

namespace penstock::api::anthropic {
namespace {

using base::Json;

bool is_blank(std::string_view text) {
  return text.find_first_not_of(" \t\r\n") == std::string_view::npos;
}

Json empty_text() {
  return {{"type", "text"}, {"text", ""}};
}

Json empty_thinking() {
  return {{"type", "thinking"}, {"thinking", ""}, {"signature", ""}};
}

}  // namespace

void Content::write(Kind kind, std::string_view text) {
  if (kind_ != kind) leave();
  kind_ = kind;
  if (!is_open_) {
    blank_ += text;
    if (is_blank(blank_)) return;
    open(kind);
    const std::string first = std::exchange(blank_, {});
    return write(kind, first);
  }
  if (kind == Kind::kText) return target_.add(Delta::kText, text);
  if (!shows_thinking_) return;
  thinking_ += text;
  target_.add(Delta::kThinking, text);
}

void Content::open(Kind kind) {
  is_open_ = true;
  target_.open(kind == Kind::kText ? empty_text() : empty_thinking());
}

void Content::leave() {
  if (is_open_) {
    if (kind_ == Kind::kThinking) target_.add(Delta::kSignature, signer_.sign(thinking_));
    target_.close();
  }
  kind_ = Kind::kNone;
  is_open_ = false;
  blank_.clear();
  thinking_.clear();
}

void Content::add(const chat::ToolCallStarted& started) {
  leave();
  kind_ = Kind::kToolUse;
  is_open_ = true;
  target_.open({{"type", "tool_use"},
                {"id", call_id("toolu_", started.id, started.is_own_id)},
                {"name", started.name},
                {"input", Json::object()}});
}

void Content::add(const chat::ToolCallDelta& delta) {
  target_.add(Delta::kInput, delta.arguments);
}

void Content::add(const chat::ToolCallFinished&) {
  leave();
}

Json delta_json(size_t index, Delta kind, std::string_view text) {
  Json delta = Json::object();
  switch (kind) {
    case Delta::kText:
      delta = {{"type", "text_delta"}, {"text", text}};
      break;
    case Delta::kThinking:
      delta = {{"type", "thinking_delta"}, {"thinking", text}};
      break;
    case Delta::kSignature:
      delta = {{"type", "signature_delta"}, {"signature", text}};
      break;
    case Delta::kInput:
      delta = {{"type", "input_json_delta"}, {"partial_json", text}};
      break;
  }
  return {{"type", "content_block_delta"}, {"index", index}, {"delta", std::move(delta)}};
}

void WholeContent::open(const Json& block) {
  blocks_.push_back(block);
  text_.clear();
  signature_.clear();
}

void WholeContent::add(Delta kind, std::string_view text) {
  (kind == Delta::kSignature ? signature_ : text_) += text;
}

void WholeContent::close() {
  Json& block = blocks_.back();
  if (block["type"] == "tool_use") {
    Json input = Json::parse(text_, nullptr, false);
    if (input.is_object()) block["input"] = std::move(input);
    return;
  }
  block[block["type"].get_ref<const std::string&>()] = std::move(text_);
  if (block.contains("signature")) block["signature"] = std::move(signature_);
}

}  // namespace penstock::api::anthropic
