// JSON for the tables of weight files, which may hold hundreds of thousands of names: sorted objects (the
// program's own Json looks keys up one by one), a name given twice is an error. Plain function, any thread.
#pragma once

#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

namespace penstock::tensor {

using TableJson = nlohmann::json;

/// Strict JSON, nested at most 8 levels. `what` names the source in the error. Throws Error(kCorrupt).
TableJson parse_table(std::string_view text, const std::string& what);

}  // namespace penstock::tensor
