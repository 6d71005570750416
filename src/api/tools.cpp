#include "api/tools.h"

#include <algorithm>
#include <cctype>
#include <string>

namespace penstock::api {
namespace {

using base::Json;

constexpr size_t kMaxNameBytes = 64;

/// ^[a-zA-Z0-9_-]{1,64}$
bool is_function_name(const std::string& name) {
  return !name.empty() && name.size() <= kMaxNameBytes &&
         std::all_of(name.begin(), name.end(),
                     [](unsigned char c) { return std::isalnum(c) != 0 || c == '_' || c == '-'; });
}

void check_tool(const Json& value, const std::string& path) {
  const Reader tool(value, path + ".");
  if (tool.string("type") != "function") tool.reject("type", "function");
  const Json* function = tool.find("function");
  if (function == nullptr) tool.reject("function", "an object");
  const Reader fields(*function, path + ".function.");
  if (!is_function_name(fields.string("name").value_or(""))) {
    fields.reject("name", "1 to 64 letters, digits, _ or -");
  }
  fields.string("description");
  const Json* parameters = fields.find("parameters");
  if (parameters != nullptr && !parameters->is_object()) fields.reject("parameters", "a JSON schema");
}

}  // namespace

Json read_tools(const Reader& reader, std::string_view name) {
  const Json* tools = reader.find(name);
  if (tools == nullptr || !tools->is_array()) reader.reject(name, "a list");
  for (size_t i = 0; i < tools->size(); ++i)
    check_tool((*tools)[i], reader.path(name) + "[" + std::to_string(i) + "]");
  return *tools;
}

}  // namespace penstock::api
