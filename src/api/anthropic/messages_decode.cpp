#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "api/anthropic/decode.h"
#include "base/error.h"

namespace penstock::api::anthropic {
namespace {

using base::Code;
using base::Error;
using base::Json;

constexpr std::string_view kBlank = " \t\r\n";

/// Blocks of the official API that hold something else than text, or that its own tools made.
constexpr std::array<std::string_view, 12> kOtherBlocks = {"image",
                                                           "document",
                                                           "search_result",
                                                           "container_upload",
                                                           "server_tool_use",
                                                           "web_search_tool_result",
                                                           "web_fetch_tool_result",
                                                           "code_execution_tool_result",
                                                           "bash_code_execution_tool_result",
                                                           "text_editor_code_execution_tool_result",
                                                           "tool_search_tool_result",
                                                           "tool_reference"};

[[noreturn]] void reject_block(const Reader& block, const std::string& type, const std::string& path,
                               const std::string& expected) {
  if (std::find(kOtherBlocks.begin(), kOtherBlocks.end(), type) != kOtherBlocks.end()) {
    throw Error(Code::kUnsupported,
                "[api.decode] expected text in " + path + ": this model reads no " + type + " blocks", path);
  }
  block.reject("type", expected);
}

std::string text_of(const Reader& fields, std::string_view name) {
  const auto text = fields.string(name);
  if (!text) fields.reject(name, "a text");
  return *text;
}

/// Calls `use(block, type, path)` for each block of a field that is a text or a list of blocks. A text is one
/// text block.
template <class Use>
void for_each_block(const Reader& owner, std::string_view field, Use use) {
  const Json* content = owner.find(field);
  const bool is_good = content != nullptr && (content->is_string() || content->is_array());
  if (!is_good) owner.reject(field, "a text or a list of blocks");
  const std::string path = owner.path(field);
  if (content->is_string()) {
    const Json block = {{"type", "text"}, {"text", *content}};
    return use(Reader(block, path + "."), std::string("text"), path);
  }
  for (size_t i = 0; i < content->size(); ++i) {
    const std::string at = path + "." + std::to_string(i);
    const Reader block((*content)[i], at + ".");
    use(block, block.string("type").value_or(""), at);
  }
}

/// The texts of a field that may hold nothing else.
std::vector<chat::Part> text_parts(const Reader& owner, std::string_view field) {
  std::vector<chat::Part> parts;
  for_each_block(owner, field, [&](const Reader& block, const std::string& type, const std::string& path) {
    if (type != "text") reject_block(block, type, path, "text");
    parts.push_back({text_of(block, "text")});
  });
  return parts;
}

/// A coding agent puts a line before its system prompt that differs in every request, for billing. It is no
/// part of the prompt, and with it no prompt would begin like another.
std::string without_billing_line(const std::string& text) {
  if (!text.starts_with("x-anthropic-billing-header:")) return text;
  const size_t end = text.find('\n');
  return end == std::string::npos ? "" : text.substr(end + 1);
}

void read_system(const Reader& reader, chat::Conversation& conversation) {
  if (reader.find("system") == nullptr) return;
  std::vector<chat::Part> parts = text_parts(reader, "system");
  for (chat::Part& part : parts) part.text = without_billing_line(part.text);
  std::erase_if(parts, [](const chat::Part& part) { return part.text.empty(); });
  if (parts.empty()) return;
  chat::Message message;
  message.role = "system";
  message.content = std::move(parts);
  conversation.messages.push_back(std::move(message));
}

chat::Message tool_result(const Reader& block) {
  chat::Message message;
  message.role = "tool";
  message.tool_call_id = text_of(block, "tool_use_id");
  message.content.emplace();
  if (block.boolean("is_error").value_or(false)) message.content->push_back({"Error: "});
  if (block.find("content") != nullptr) {
    for (chat::Part& part : text_parts(block, "content")) message.content->push_back(std::move(part));
  }
  return message;
}

/// A turn of the user: results of tools are messages of their own, what is between them too.
void add_user(const Reader& fields, std::vector<chat::Message>& messages) {
  std::vector<chat::Part> parts;
  const auto flush = [&] {
    if (parts.empty()) return;
    chat::Message message;
    message.role = "user";
    message.content = std::exchange(parts, {});
    messages.push_back(std::move(message));
  };
  size_t n_blocks = 0;
  for_each_block(fields, "content",
                 [&](const Reader& block, const std::string& type, const std::string& path) {
                   ++n_blocks;
                   if (type == "text") {
                     parts.push_back({text_of(block, "text")});
                   } else if (type == "tool_result") {
                     flush();
                     messages.push_back(tool_result(block));
                   } else {
                     reject_block(block, type, path, "text or tool_result");
                   }
                 });
  if (n_blocks == 0) fields.reject("content", "a text or a list of at least one block");
  flush();
}

std::string checked_thinking(const Reader& block, const std::string& path, const Signer& signer) {
  std::string thinking = text_of(block, "thinking");
  if (signer.is_signed(thinking, text_of(block, "signature"))) return thinking;
  // The first words are the official ones, which clients look for.
  throw Error(
      Code::kInvalidRequest,
      "[api.decode] " + path +
          ": Invalid `signature` in `thinking` block; expected the block as this server sent it. When its "
          "signing key has changed, leave thinking blocks out",
      path + ".signature");
}

chat::ToolCall tool_use(const Reader& block) {
  const Json* input = block.find("input");
  if (input == nullptr || !input->is_object()) block.reject("input", "an object");
  return {text_of(block, "id"), text_of(block, "name"), input->dump()};
}

void add_assistant(const Reader& fields, const Signer& signer, std::vector<chat::Message>& messages) {
  chat::Message message;
  message.role = "assistant";
  std::vector<chat::Part> parts;
  for_each_block(fields, "content",
                 [&](const Reader& block, const std::string& type, const std::string& path) {
                   if (type == "text") {
                     parts.push_back({text_of(block, "text")});
                   } else if (type == "tool_use") {
                     message.tool_calls.push_back(tool_use(block));
                   } else if (type == "thinking") {
                     message.reasoning += checked_thinking(block, path, signer);
                   } else if (type == "redacted_thinking") {
                     text_of(block, "data");  // no model here wrote it, and none can read it
                   } else {
                     reject_block(block, type, path, "text, tool_use, thinking or redacted_thinking");
                   }
                 });
  if (!parts.empty()) message.content = std::move(parts);
  messages.push_back(std::move(message));
}

void add_message(const Json& value, const std::string& path, const Signer& signer,
                 std::vector<chat::Message>& messages) {
  const Reader fields(value, path + ".");
  const std::string role = fields.string("role").value_or("");
  if (role == "user") return add_user(fields, messages);
  if (role == "assistant") return add_assistant(fields, signer, messages);
  if (role != "system") fields.reject("role", "user, assistant or system");
  chat::Message message;
  message.role = role;
  message.content = text_parts(fields, "content");
  messages.push_back(std::move(message));
}

/// The answer goes on with the text of an assistant's message at the end; an empty one is as good as none.
void continue_last(const std::string& path, chat::Conversation& conversation) {
  const chat::Message& last = conversation.messages.back();
  if (last.role != "assistant") return;
  const auto reject = [&](const std::string& expected) {
    throw Error(Code::kInvalidRequest, "[api.decode] expected " + path + ", the last message, " + expected,
                path);
  };
  if (!last.tool_calls.empty())
    reject("to bring the results of its tool_use blocks; got the assistant's own");
  const std::string text = last.text();
  if (text.empty() && last.reasoning.empty()) {
    conversation.messages.pop_back();
    if (conversation.messages.empty()) reject("not to be the only one and empty");
    return;
  }
  if (text.empty()) reject("to end with text, to continue it; got thinking only");
  if (kBlank.find(text.back()) != std::string_view::npos)
    reject("to end without white space: the model continues it");
  conversation.continue_final_message = true;
}

}  // namespace

void read_messages(const Reader& reader, const Signer& signer, chat::Conversation& conversation) {
  const Json* list = reader.find("messages");
  if (list == nullptr || !list->is_array() || list->empty())
    reader.reject("messages", "a list of at least one message");
  read_system(reader, conversation);
  const auto path = [](size_t i) { return "messages." + std::to_string(i); };
  for (size_t i = 0; i < list->size(); ++i) add_message((*list)[i], path(i), signer, conversation.messages);
  continue_last(path(list->size() - 1), conversation);
}

}  // namespace penstock::api::anthropic
