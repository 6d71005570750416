#include "text/template_files.h"

#include "base/error.h"
#include "base/json.h"

namespace penstock::text {
namespace {

using base::Json;

[[noreturn]] void fail(base::Code code, const std::string& what) {
  throw base::Error(code, "[text.template] " + what);
}

// A `chat_template` value: one text, a table of named texts, or a list of {"name", "template"}.
std::optional<TemplateChoice> choice_of(const Json& value, const std::string& origin) {
  if (value.is_null()) return std::nullopt;
  if (value.is_string()) return TemplateChoice{value.get<std::string>(), std::nullopt, origin};
  TemplateChoice choice{"", std::nullopt, origin};
  bool has_default = false;
  const auto take = [&](const std::string& name, const Json& text) {
    if (!text.is_string())
      fail(base::Code::kCorrupt, origin + ": chat_template '" + name + "' must be a text");
    if (name == "default") {
      choice.source = text.get<std::string>();
      has_default = true;
    } else if (name == "tool_use") {
      choice.tool_use = text.get<std::string>();
    }
  };
  if (value.is_object()) {
    for (const auto& [name, text] : value.items()) take(name, text);
  } else if (value.is_array()) {
    for (const Json& entry : value) {
      if (!entry.is_object() || !entry.contains("name") || !entry.contains("template") ||
          !entry["name"].is_string()) {
        fail(base::Code::kCorrupt, origin + ": chat_template must list objects with name and template");
      }
      take(entry["name"].get<std::string>(), entry["template"]);
    }
  } else {
    fail(base::Code::kCorrupt, origin + ": chat_template must be a text or a list; got " + value.type_name());
  }
  if (!has_default)
    fail(base::Code::kUnsupported, origin + ": chat_template lists no template named 'default'");
  return choice;
}

Json parse(std::string_view text, const std::string& origin) {
  // Added tokens fill most of such a file, and an ordered object looks through all its keys for each new one.
  const auto keep = [](int depth, Json::parse_event_t event, Json& parsed) {
    return event != Json::parse_event_t::key || depth != 1 || parsed != "added_tokens_decoder";
  };
  Json json = Json::parse(text, keep, /*allow_exceptions=*/false);
  if (!json.is_discarded()) return json;
  try {
    return base::parse_python_json(text, origin);
  } catch (const base::Error& error) {
    fail(base::Code::kCorrupt, std::string(error.text()));
  }
}

std::optional<TemplateChoice> choice_in(std::string_view file, const std::string& origin) {
  if (file.empty()) return std::nullopt;
  const Json json = parse(file, origin);
  if (!json.is_object() || !json.contains("chat_template")) return std::nullopt;
  return choice_of(json["chat_template"], origin);
}

// Some checkpoints name a Python module of another program in place of a template; that code is never run.
void refuse_template_module(std::string_view tokenizer_config_json) {
  if (tokenizer_config_json.empty()) return;
  const Json json = parse(tokenizer_config_json, "tokenizer_config.json");
  if (!json.is_object() || !json.contains("chat_template_type") || json["chat_template_type"].is_null())
    return;
  fail(base::Code::kUnsupported,
       "expected a template text, as in a chat_template.jinja; got chat_template_type " +
           json["chat_template_type"].dump() + " in tokenizer_config.json, which is a program");
}

}  // namespace

std::optional<TemplateChoice> choose_template(const TemplateFiles& files) {
  if (!files.chat_template_jinja.empty()) {
    TemplateChoice choice{std::string(files.chat_template_jinja), std::nullopt, "chat_template.jinja"};
    if (!files.tool_use_jinja.empty()) choice.tool_use = std::string(files.tool_use_jinja);
    return choice;
  }
  if (auto choice = choice_in(files.tokenizer_config_json, "tokenizer_config.json")) return choice;
  if (auto choice = choice_in(files.chat_template_json, "chat_template.json")) return choice;
  refuse_template_module(files.tokenizer_config_json);
  if (files.gguf_template.empty()) return std::nullopt;
  return TemplateChoice{std::string(files.gguf_template), std::nullopt, "GGUF metadata"};
}

TemplateSpecials template_specials(std::string_view tokenizer_config_json) {
  TemplateSpecials specials;
  if (tokenizer_config_json.empty()) return specials;
  const Json json = parse(tokenizer_config_json, "tokenizer_config.json");
  const auto take = [&](const char* name) -> std::optional<std::string> {
    const auto found = json.find(name);
    if (found == json.end()) return std::nullopt;
    if (found->is_string()) return found->get<std::string>();
    if (found->is_object() && found->contains("content")) return (*found)["content"].get<std::string>();
    return std::nullopt;
  };
  specials.bos = take("bos_token");
  specials.eos = take("eos_token");
  specials.unk = take("unk_token");
  specials.pad = take("pad_token");
  return specials;
}

}  // namespace penstock::text
