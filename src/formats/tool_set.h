// The tools that a request declares, by name. Refers to the request's JSON, which must outlive it; immutable.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>

#include <nlohmann/json_fwd.hpp>

namespace penstock::formats {

class ToolSet {
 public:
  /// An array in OpenAI's form ({"type": "function", "function": {...}}), or null for none.
  explicit ToolSet(const nlohmann::ordered_json* tools);

  bool empty() const { return parameters_.empty(); }
  bool has(std::string_view name) const { return parameters_.contains(std::string(name)); }

  /// The schema of a tool's arguments; null without one.
  const nlohmann::ordered_json* parameters(std::string_view name) const;

 private:
  std::unordered_map<std::string, const nlohmann::ordered_json*> parameters_;
};

}  // namespace penstock::formats
