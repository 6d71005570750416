// Reads values as Python writes them and passes them on as JSON, strings as they come.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "formats/json_value.h"

namespace penstock::formats {

/// One value: strings in either quotes, numbers, True, False, None and JSON's words, lists, tuples, dicts.
/// A quote ends a string only where the value may end (before a comma, a bracket, a colon or the end of the
/// output), for models that do not escape quotes.
Step read_literal(Input& in, JsonSink to);

/// JSON of a text that is one JSON or Python value and nothing else.
std::optional<std::string> json_of_literal(std::string_view text);

}  // namespace penstock::formats
