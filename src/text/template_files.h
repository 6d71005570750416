// Picks the chat template of a model from the texts of its files. Pure functions; the caller reads the files.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "text/chat_template.h"

namespace penstock::text {

/// Contents of the files that may hold a template; an empty view is a file that is not there.
struct TemplateFiles {
  std::string_view chat_template_jinja;    // chat_template.jinja
  std::string_view tool_use_jinja;         // additional_chat_templates/tool_use.jinja
  std::string_view tokenizer_config_json;  // tokenizer_config.json
  std::string_view chat_template_json;     // chat_template.json
  std::string_view gguf_template;          // tokenizer.chat_template of a GGUF file
};

struct TemplateChoice {
  std::string source;                   // for conversations without tools, and with them if tool_use is empty
  std::optional<std::string> tool_use;  // for conversations with tools
  std::string origin;                   // the file that `source` came from, for status and logs
};

/// The first of these that has one wins: chat_template.jinja, tokenizer_config.json (`chat_template`: a
/// string, or a list or table of named ones, of which `default` and `tool_use` count), chat_template.json,
/// GGUF metadata. Nothing if none has. Throws Error(kCorrupt) for a file that cannot be read,
/// Error(kUnsupported) for a list without `default` and for a template that is a Python module.
std::optional<TemplateChoice> choose_template(const TemplateFiles& files);

/// `bos_token`, `eos_token`, `unk_token` and `pad_token` of a tokenizer_config.json, each a string or an
/// added token.
TemplateSpecials template_specials(std::string_view tokenizer_config_json);

}  // namespace penstock::text
