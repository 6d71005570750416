#include "serve/prompt.h"

#include <algorithm>
#include <cctype>

#include "base/error.h"
#include "base/hash.h"

namespace penstock::serve {
namespace {

using base::Code;
using base::Error;
using base::Json;

/// Mistral's templates refuse ids of calls that are not nine letters or digits. Ours are that behind the
/// prefix of their surface; one of another shape becomes such an id.
std::string short_call_id(const std::string& id) {
  constexpr size_t kLength = 9;
  constexpr std::string_view kDigits = "0123456789abcdefghijklmnopqrstuvwxyz";
  for (const std::string_view prefix : {"call_", "toolu_", "fc_"}) {
    if (!id.starts_with(prefix) || id.size() != prefix.size() + kLength) continue;
    const std::string rest = id.substr(prefix.size());
    if (std::all_of(rest.begin(), rest.end(), [](unsigned char c) { return std::isalnum(c) != 0; }))
      return rest;
  }
  std::string shown;
  for (uint64_t hash = base::fnv1a(id); shown.size() < kLength; hash /= kDigits.size())
    shown += kDigits[hash % kDigits.size()];
  return shown;
}

void shorten_call_ids(chat::Message& message) {
  const auto change = [](std::string& id) {
    if (!id.empty()) id = short_call_id(id);
  };
  change(message.tool_call_id);
  for (chat::ToolCall& call : message.tool_calls) change(call.id);
}

Json template_context(const chat::Conversation& conversation, const std::vector<chat::Message>& messages,
                      bool short_ids) {
  Json context = {{"messages", Json::array()}};
  for (chat::Message message : messages) {
    if (short_ids) shorten_call_ids(message);
    context["messages"].push_back(chat::to_template_json(message));
  }
  if (shows_tools(conversation)) context["tools"] = conversation.tools;
  if (!conversation.template_kwargs.is_null()) context["chat_template_kwargs"] = conversation.template_kwargs;
  return context;
}

/// Renders; a conversation that the template refuses once more with merged turns. Refused again, its first
/// words are the ones that fit what the client sent.
std::string render(const chat::Conversation& conversation, const pool::Model& model) {
  const bool short_ids = model.output.tool_name().starts_with("mistral");
  const auto attempt = [&](const std::vector<chat::Message>& messages) {
    Json context = model.guard->fence_strings(template_context(conversation, messages, short_ids));
    context["add_generation_prompt"] =
        conversation.add_generation_prompt && !conversation.continue_final_message;
    return model.codec->render(context);
  };
  try {
    return attempt(conversation.messages);
  } catch (const Error& refusal) {
    const auto merged = chat::merged_turns(conversation.messages);
    if (refusal.code() != Code::kInvalidRequest || !merged) throw;
    try {
      return attempt(*merged);
    } catch (const Error&) {
      throw refusal;
    }
  }
}

/// Many templates know nothing of tools and would leave them out without a word.
void check_tools_shown(const chat::Conversation& conversation, const std::string& rendered,
                       const pool::Model& model) {
  if (!shows_tools(conversation)) return;
  chat::Conversation bare = conversation;
  bare.tools = nullptr;
  if (render(bare, model) != rendered) return;
  throw Error(Code::kUnsupported,
              "[serve.prepare] expected no tools: this model's chat template does not show them; leave them "
              "out or send tool_choice \"none\"",
              "tools");
}

/// Cuts what the template put after the last message, so that the answer goes on with it.
void cut_after_final_message(std::string& rendered, std::string final_text) {
  final_text.erase(final_text.find_last_not_of(" \t\r\n") + 1);
  const size_t at = final_text.empty() ? std::string::npos : rendered.rfind(final_text);
  if (at == std::string::npos) {
    throw Error(Code::kInvalidRequest,
                "[serve.prepare] expected a last assistant message whose text the template shows, to "
                "continue it; got "
                "none",
                "continue_final_message");
  }
  rendered.resize(at + final_text.size());
}

/// For a model without a template: the texts alone, an empty line between them.
EncodedPrompt encode_texts(const chat::Conversation& conversation, const pool::Model& model) {
  std::string joined;
  for (const chat::Message& message : conversation.messages) {
    joined += (joined.empty() ? "" : "\n\n") + message.text();
  }
  const bool is_first = conversation.prior_tokens.empty();
  return {model.codec->encode_marked(model.guard->mark(model.guard->fence(joined)), is_first), false};
}

EncodedPrompt encode_conversation(const chat::Conversation& conversation, const pool::Model& model) {
  const text::Codec& codec = *model.codec;
  const text::ControlGuard& guard = *model.guard;
  if (!codec.has_template() && conversation.works_without_template) return encode_texts(conversation, model);
  if (!codec.has_template()) {
    throw Error(
        Code::kInvalidRequest,
        "[serve.prepare] expected a model with a chat template; this one has none: use /v1/completions",
        "messages");
  }
  std::string rendered = render(conversation, model);
  check_tools_shown(conversation, rendered, model);
  if (conversation.continue_final_message) {
    cut_after_final_message(rendered, guard.fence(conversation.messages.back().text()));
  }
  return {codec.encode_marked(guard.mark(rendered), false), model.output.opens_reasoning(rendered)};
}

}  // namespace

bool shows_tools(const chat::Conversation& conversation) {
  return conversation.tools.is_array() && !conversation.tools.empty() && conversation.tool_choice != "none";
}

std::vector<EncodedPrompt> encode_prompts(const chat::Request& request, const pool::Model& model) {
  std::vector<EncodedPrompt> prompts;
  if (const auto* conversation = std::get_if<chat::Conversation>(&request.input)) {
    EncodedPrompt& prompt = prompts.emplace_back(encode_conversation(*conversation, model));
    prompt.ids.insert(prompt.ids.begin(), conversation->prior_tokens.begin(),
                      conversation->prior_tokens.end());
    return prompts;
  }
  for (const auto& prompt : std::get<chat::Completion>(request.input).prompts) {
    if (const auto* text = std::get_if<std::string>(&prompt)) {
      // A raw prompt is the client's own template: what it spells as control tokens is meant as such.
      prompts.push_back({model.codec->encode(*text, true)});
    } else {
      prompts.push_back({std::get<std::vector<int32_t>>(prompt)});
    }
  }
  return prompts;
}

}  // namespace penstock::serve
