#include <algorithm>
#include <cctype>
#include <set>

#include "api/anthropic/decode.h"
#include "base/error.h"

namespace penstock::api::anthropic {
namespace {

using base::Code;
using base::Error;
using base::Json;

constexpr size_t kMaxNameBytes = 128;

/// ^[a-zA-Z0-9_-]{1,128}$
bool is_tool_name(const std::string& name) {
  return !name.empty() && name.size() <= kMaxNameBytes &&
         std::all_of(name.begin(), name.end(),
                     [](unsigned char c) { return std::isalnum(c) != 0 || c == '_' || c == '-'; });
}

/// A tool in OpenAI's form, which is what chat templates are written for.
Json decode_tool(const Json& value, const std::string& path) {
  const Reader tool(value, path + ".");
  const std::string type = tool.string("type").value_or("custom");
  if (type != "custom") {
    throw Error(Code::kUnsupported,
                "[api.decode] expected " + path +
                    " to be a tool of your own, with an input_schema; got one of type " + shown(type) +
                    ", which only Anthropic's own service has",
                path + ".type");
  }
  const std::string name = tool.string("name").value_or("");
  if (!is_tool_name(name)) tool.reject("name", "1 to 128 letters, digits, _ or -");
  Json function = {{"name", name}};
  if (const auto description = tool.string("description")) function["description"] = *description;
  const Json* schema = tool.find("input_schema");
  if (schema == nullptr || !schema->is_object()) tool.reject("input_schema", "a JSON schema");
  function["parameters"] = *schema;
  return {{"type", "function"}, {"function", std::move(function)}};
}

const std::string& name_of(const Json& tool) {
  return tool["function"]["name"].get_ref<const std::string&>();
}

void read_choice(const Reader& reader, chat::Conversation& conversation) {
  const Json* value = reader.find("tool_choice");
  if (value == nullptr) return;
  const Reader choice(*value, "tool_choice.");
  const std::string type = choice.string("type").value_or("");
  if (type == "auto" || type == "none") {
    conversation.tool_choice = type;
  } else if (type == "any") {
    conversation.tool_choice = "required";
  } else if (type == "tool") {
    const std::string name = choice.string("name").value_or("");
    const Json& tools = conversation.tools;
    const bool is_known =
        std::any_of(tools.begin(), tools.end(), [&](const Json& tool) { return name_of(tool) == name; });
    if (!is_known) choice.reject("name", "the name of one of the tools");
    conversation.tool_choice = {{"type", "function"}, {"function", {{"name", name}}}};
  } else {
    choice.reject("type", "auto, any, tool or none");
  }
  conversation.parallel_tool_calls = !choice.boolean("disable_parallel_tool_use").value_or(false);
}

}  // namespace

void read_tools(const Reader& reader, chat::Conversation& conversation) {
  if (const Json* tools = reader.find("tools")) {
    if (!tools->is_array()) reader.reject("tools", "a list");
    conversation.tools = Json::array();
    std::set<std::string> names;
    for (size_t i = 0; i < tools->size(); ++i) {
      const std::string path = "tools." + std::to_string(i);
      Json tool = decode_tool((*tools)[i], path);
      if (!names.insert(name_of(tool)).second)
        Reader((*tools)[i], path + ".").reject("name", "one that no other tool has");
      conversation.tools.push_back(std::move(tool));
    }
  }
  read_choice(reader, conversation);
}

}  // namespace penstock::api::anthropic
