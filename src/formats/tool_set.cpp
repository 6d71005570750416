#include "formats/tool_set.h"

#include "base/json.h"

namespace penstock::formats {

ToolSet::ToolSet(const base::Json* tools) {
  if (tools == nullptr || !tools->is_array()) return;
  for (const base::Json& tool : *tools) {
    if (!tool.is_object()) continue;
    const auto function = tool.find("function");
    const base::Json& said = function == tool.end() ? tool : *function;
    if (!said.is_object()) continue;
    const auto name = said.find("name");
    if (name == said.end() || !name->is_string()) continue;
    const auto parameters = said.find("parameters");
    parameters_.emplace(name->get<std::string>(), parameters == said.end() ? nullptr : &*parameters);
  }
}

const base::Json* ToolSet::parameters(std::string_view name) const {
  const auto found = parameters_.find(std::string(name));
  return found == parameters_.end() ? nullptr : found->second;
}

}  // namespace penstock::formats
