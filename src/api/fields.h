// The three sets of request fields of an endpoint: honoured, accepted because they cannot change the output,
// refused. A name in none of them is let through and reported. Each surface has a table of them in its own
// fields.cpp; docs/reference lists the same sets, and a test compares the two.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace penstock::api {

enum class FieldSet { kHonoured, kAccepted, kRefused };

struct Field {
  std::string_view name;
  FieldSet set;
  std::string_view instead = {};  // of a refused field: what does the same here
};

/// Names of `body` that are in no set, in its order. A refused name with a value (not null) throws
/// Error(kUnsupported) that names it.
std::vector<std::string> unknown_fields(const base::Json& body, std::span<const Field> fields);

}  // namespace penstock::api
