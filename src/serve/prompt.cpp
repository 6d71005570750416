#include "serve/prompt.h"

#include <algorithm>

#include "base/error.h"

namespace penstock::serve {
namespace {

using base::Code;
using base::Error;
using base::Json;

Json template_context(const chat::Conversation& conversation, const std::vector<chat::Message>& messages) {
  Json context = {{"messages", Json::array()}};
  for (const chat::Message& message : messages)
    context["messages"].push_back(chat::to_template_json(message));
  if (shows_tools(conversation)) context["tools"] = conversation.tools;
  if (!conversation.template_kwargs.is_null()) context["chat_template_kwargs"] = conversation.template_kwargs;
  return context;
}

/// Renders; a conversation that the template refuses once more with merged turns. Refused again, its first
/// words are the ones that fit what the client sent.
std::string render(const chat::Conversation& conversation, const text::Codec& codec,
                   const text::ControlGuard& guard) {
  const auto attempt = [&](const std::vector<chat::Message>& messages) {
    Json context = guard.fence_strings(template_context(conversation, messages));
    context["add_generation_prompt"] =
        conversation.add_generation_prompt && !conversation.continue_final_message;
    return codec.render(context);
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
                       const text::Codec& codec, const text::ControlGuard& guard) {
  if (!shows_tools(conversation)) return;
  chat::Conversation bare = conversation;
  bare.tools = nullptr;
  if (render(bare, codec, guard) != rendered) return;
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

EncodedPrompt encode_conversation(const chat::Conversation& conversation, const pool::Model& model) {
  const text::Codec& codec = *model.codec;
  const text::ControlGuard& guard = *model.guard;
  if (!codec.has_template()) {
    throw Error(
        Code::kInvalidRequest,
        "[serve.prepare] expected a model with a chat template; this one has none: use /v1/completions",
        "messages");
  }
  std::string rendered = render(conversation, codec, guard);
  check_tools_shown(conversation, rendered, codec, guard);
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
    prompts.push_back(encode_conversation(*conversation, model));
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
