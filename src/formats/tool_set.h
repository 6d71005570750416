// The tools that a request declares, by name. Refers to the request's JSON, which must outlive it; immutable.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>

#include "base/json.h"

namespace penstock::formats {

class ToolSet {
 public:
  /// An array in OpenAI's form ({"type": "function", "function": {...}}), or null for none.
  explicit ToolSet(const base::Json* tools);

  bool empty() const { return parameters_.empty(); }
  bool has(std::string_view name) const { return parameters_.contains(std::string(name)); }

  /// The schema of a tool's arguments; null without one.
  const base::Json* parameters(std::string_view name) const;

 private:
  std::unordered_map<std::string, const base::Json*> parameters_;
};

}  // namespace penstock::formats
