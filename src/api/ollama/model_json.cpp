#include "api/ollama/model_json.h"

#include <fmt/format.h>

#include "api/ollama/keep_alive.h"
#include "library/names.h"

namespace penstock::api::ollama {
namespace {

using base::Json;

Json details_json(const library::Listing& model) {
  const library::Facts& facts = model.facts;
  Json families = Json::array();
  if (!facts.family.empty()) families.push_back(facts.family);
  return {{"parent_model", model.parent.empty() ? "" : library::with_tag(model.parent)},
          {"format", facts.container},
          {"family", facts.family},
          {"families", std::move(families)},
          {"parameter_size", facts.parameters == 0 ? "" : count_text(facts.parameters)},
          {"quantization_level", facts.quantisation}};
}

Json named_json(const library::Listing& model) {
  const std::string name = library::with_tag(model.name);
  return {{"name", name}, {"model", name}};
}

/// As the lines of a Modelfile have them; lists take a line for each value.
std::string parameters_text(const Json& parameters) {
  std::string text;
  if (!parameters.is_object()) return text;
  const auto add = [&](const std::string& name, const Json& value) {
    if (!text.empty()) text += '\n';
    text += fmt::format("{:<30} {}", name, value.dump());
  };
  for (const auto& [name, value] : parameters.items()) {
    if (!value.is_array()) add(name, value);
    if (value.is_array()) {
      for (const Json& one : value) add(name, one);
    }
  }
  return text;
}

std::string modelfile_text(const library::Listing& model) {
  std::string text = "FROM " + library::with_tag(model.parent.empty() ? model.name : model.parent) + "\n";
  if (!model.preset.system.empty()) text += "SYSTEM \"\"\"" + model.preset.system + "\"\"\"\n";
  if (!model.preset.parameters.is_object()) return text;
  for (const auto& [name, value] : model.preset.parameters.items()) {
    const Json list = value.is_array() ? value : Json::array({value});
    for (const Json& one : list) text += "PARAMETER " + name + " " + one.dump() + "\n";
  }
  return text;
}

std::string licence_text(const library::Listing& model) {
  std::string text;
  for (const std::string& licence : model.preset.licences) text += (text.empty() ? "" : "\n") + licence;
  return text.empty() ? model.facts.licence : text;
}

/// Calls and reasoning are asked for through a template.
Json capabilities_json(const library::Facts& facts) {
  Json list = Json::array({"completion"});
  if (facts.calls_tools && !facts.chat_template.empty()) list.push_back("tools");
  if (facts.has_reasoning) list.push_back("thinking");
  return list;
}

uint64_t memory_bytes(const library::Listing& model) {
  const uint64_t planned = model.card.memory.planned_bytes();
  return planned == 0 ? model.facts.size_bytes : planned;
}

}  // namespace

std::string count_text(int64_t count) {
  const auto number = static_cast<double>(count);
  if (count >= 1'000'000'000) return fmt::format("{:.1f}B", number / 1e9);
  if (count >= 1'000'000) return fmt::format("{:.2f}M", number / 1e6);
  if (count >= 1000) return fmt::format("{:.0f}K", number / 1e3);
  return std::to_string(count);
}

Json tag_json(const library::Listing& model) {
  Json json = named_json(model);
  json["modified_at"] = time_text_ms(model.modified_ms);
  json["size"] = model.facts.size_bytes;
  json["digest"] = model.facts.sha256;
  json["details"] = details_json(model);
  return json;
}

Json running_json(const library::Listing& model, std::chrono::system_clock::time_point now) {
  Json json = named_json(model);
  const uint64_t bytes = memory_bytes(model);
  json["size"] = bytes;
  json["digest"] = model.facts.sha256;
  json["details"] = details_json(model);
  json["expires_at"] = model.card.expires_in ? time_text(now + *model.card.expires_in) : kNever;
  json["size_vram"] = model.card.memory.on_device ? bytes : 0;
  json["context_length"] = model.card.context_length;
  return json;
}

Json show_json(const library::Listing& model) {
  Json json = Json::object();
  json["license"] = licence_text(model);
  json["modelfile"] = modelfile_text(model);
  json["parameters"] = parameters_text(model.preset.parameters);
  json["template"] = model.facts.chat_template;
  if (!model.preset.system.empty()) json["system"] = model.preset.system;
  json["details"] = details_json(model);
  json["model_info"] = model.facts.info;
  json["capabilities"] = capabilities_json(model.facts);
  json["modified_at"] = time_text_ms(model.modified_ms);
  return json;
}

}  // namespace penstock::api::ollama
