#include "api/responses/tools.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "base/error.h"

namespace penstock::api::responses {
namespace {

using base::Code;
using base::Error;
using base::Json;

constexpr size_t kMaxNameBytes = 128;  // with the group in it

constexpr std::array<std::string_view, 17> kHosted = {"web_search",
                                                      "web_search_2025_08_26",
                                                      "web_search_preview",
                                                      "web_search_preview_2025_03_11",
                                                      "file_search",
                                                      "code_interpreter",
                                                      "image_generation",
                                                      "computer",
                                                      "computer_use",
                                                      "computer_use_preview",
                                                      "mcp",
                                                      "local_shell",
                                                      "shell",
                                                      "apply_patch",
                                                      "tool_search",
                                                      "programmatic_tool_calling",
                                                      "memory_search"};

bool is_hosted(std::string_view type) {
  return std::find(kHosted.begin(), kHosted.end(), type) != kHosted.end();
}

bool is_name(const std::string& name) {
  return !name.empty() && name.size() <= kMaxNameBytes &&
         std::all_of(name.begin(), name.end(),
                     [](unsigned char c) { return std::isalnum(c) != 0 || c == '_' || c == '-'; });
}

class ToolsReader {
 public:
  void read(const Json& list, Tools& out) {
    out.tools = Json::array();
    out.shown = Json::array();
    for (size_t i = 0; i < list.size(); ++i) add(list[i], "tools[" + std::to_string(i) + "]", out);
  }

 private:
  void add(const Json& value, const std::string& path, Tools& out) {
    const Reader tool(value, path + ".");
    const std::string type = tool.string("type").value_or("");
    if (is_hosted(type)) {
      out.dropped.push_back(path + "." + type);
      return;
    }
    if (type == "custom") {
      throw Error(Code::kUnsupported,
                  "[responses.tools] expected tools of type function; custom ones are not supported here",
                  path + ".type");
    }
    if (type == "namespace") {
      add_group(tool, path, out);
    } else if (type == "function") {
      add_function(tool, "", out);
    } else {
      tool.reject("type", "function, namespace or a hosted tool's");
    }
    out.tools.push_back(value);
  }

  void add_group(const Reader& group, const std::string& path, Tools& out) {
    const std::string name = group.string("name").value_or("");
    if (!is_name(name)) group.reject("name", "1 to 128 letters, digits, _ or -");
    const Json* list = group.find("tools");
    if (list == nullptr || !list->is_array()) group.reject("tools", "a list");
    for (size_t i = 0; i < list->size(); ++i) {
      const Reader tool((*list)[i], path + ".tools[" + std::to_string(i) + "].");
      if (tool.string("type") != "function") tool.reject("type", "function");
      add_function(tool, name, out);
    }
  }

  void add_function(const Reader& tool, const std::string& group, Tools& out) {
    const ToolName own{group, tool.string("name").value_or("")};
    const std::string name = shown_name(own);
    if (own.name.empty() || !is_name(name))
      tool.reject("name", "1 to 128 letters, digits, _ or -, with its namespace");
    for (const Json& other : out.shown) {
      if (other["function"]["name"] == name) tool.reject("name", "a name of its own: another tool has it");
    }
    const Json* parameters = tool.find("parameters");
    if (parameters != nullptr && !parameters->is_object()) tool.reject("parameters", "a JSON schema");
    Json function = {{"name", name}};
    if (const auto description = tool.string("description")) function["description"] = *description;
    if (parameters != nullptr) function["parameters"] = *parameters;
    if (const auto strict = tool.boolean("strict")) function["strict"] = *strict;
    out.shown.push_back({{"type", "function"}, {"function", std::move(function)}});
    if (!group.empty()) out.names[name] = own;
  }
};

bool has_tool(const Json& shown, const std::string& name) {
  return std::any_of(shown.begin(), shown.end(),
                     [&](const Json& tool) { return tool["function"]["name"] == name; });
}

/// The shown name of {"type": "function", "name", "namespace"?}, which must be one of the tools.
std::string chosen_function(const Reader& choice, const Tools& tools) {
  const std::string name =
      shown_name({choice.string("namespace").value_or(""), choice.string("name").value_or("")});
  if (!has_tool(tools.shown, name)) choice.reject("name", "the name of one of the tools");
  return name;
}

/// Only these are shown to the model.
void keep_allowed(const Reader& choice, Tools& out) {
  const Json* list = choice.find("tools");
  if (list == nullptr || !list->is_array()) choice.reject("tools", "a list");
  Json kept = Json::array();
  for (size_t i = 0; i < list->size(); ++i) {
    const Reader one((*list)[i], choice.path("tools") + "[" + std::to_string(i) + "].");
    if (is_hosted(one.string("type").value_or(""))) continue;
    if (one.string("type") != "function") one.reject("type", "function");
    const std::string name = chosen_function(one, out);
    for (const Json& tool : out.shown) {
      if (tool["function"]["name"] == name) kept.push_back(tool);
    }
  }
  out.shown = std::move(kept);
  const auto mode = choice.string("mode");
  if (mode != "auto" && mode != "required") choice.reject("mode", "auto or required");
  out.shown_choice = *mode;
}

void read_choice(const Reader& reader, Tools& out) {
  const Json* choice = reader.find("tool_choice");
  if (choice == nullptr) return;
  out.choice = out.shown_choice = *choice;
  if (*choice == "none" || *choice == "auto" || *choice == "required") return;
  if (!choice->is_object()) reader.reject("tool_choice", "none, auto, required or an object");
  const Reader fields(*choice, "tool_choice.");
  const std::string type = fields.string("type").value_or("");
  if (type == "function") {
    out.shown_choice = {{"type", "function"}, {"function", {{"name", chosen_function(fields, out)}}}};
  } else if (type == "allowed_tools") {
    keep_allowed(fields, out);
  } else if (is_hosted(type)) {
    throw Error(Code::kUnsupported,
                "[responses.tools] expected a choice among functions; " + type + " is not run here",
                "tool_choice");
  } else {
    fields.reject("type", "function or allowed_tools");
  }
}

}  // namespace

std::string shown_name(const ToolName& name) {
  if (name.group.empty()) return name.name;
  const bool has_border = name.group.ends_with('_') || name.name.starts_with('_');
  return name.group + (has_border ? "" : "__") + name.name;
}

Tools read_tools(const Reader& reader) {
  Tools out;
  out.tools = Json::array();
  out.choice = "auto";
  if (const Json* list = reader.find("tools")) {
    if (!list->is_array()) reader.reject("tools", "a list");
    ToolsReader().read(*list, out);
  }
  read_choice(reader, out);
  if (out.shown.empty()) out.shown = nullptr;
  return out;
}

}  // namespace penstock::api::responses
