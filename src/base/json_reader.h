// Reads a JSON text from outside in a time that grows with its length alone. Stateless, any thread.
// The library's own reader looks through all earlier members of an object for each new one.
#pragma once

#include <cstddef>
#include <limits>
#include <string_view>

#include "base/json.h"

namespace penstock::base {

struct JsonLimits {
  size_t depth = 128;                                  // of brackets
  size_t values = std::numeric_limits<size_t>::max();  // of all kinds, containers too
};

/// Strict JSON; of members with the same name the last counts. `what` names the source in the error.
/// Throws Error: kInvalidRequest where it is malformed or too deep, kTooLarge for too many values.
Json read_json(std::string_view text, std::string_view what, const JsonLimits& limits);

}  // namespace penstock::base
