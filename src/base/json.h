// The JSON type of the whole program: keeps the order of object keys, since templates and clients see it.
#pragma once

#include <string_view>

#include <nlohmann/json.hpp>

namespace penstock::base {

using Json = nlohmann::ordered_json;

/// Strict JSON, nested at most `max_depth` levels. `what` names the source in the error.
/// Throws Error(kInvalidRequest).
Json parse_json(std::string_view text, std::string_view what, int max_depth = 128);

/// Whether some value of the text lies deeper than `max_depth` brackets; looks at brackets only.
bool is_nested_deeper(std::string_view text, int max_depth);

/// JSON as Python's json module writes it, for the files of a model directory: a byte order mark is skipped,
/// NaN is read as null and Infinity as the largest double.
Json parse_python_json(std::string_view text, std::string_view what);

}  // namespace penstock::base
