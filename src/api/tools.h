// Tools that a request declares, in OpenAI's form. Pure functions.
#pragma once

#include <string_view>

#include "api/reader.h"
#include "base/json.h"

namespace penstock::api {

/// The list in that field, which must be there. Throws Error(kInvalidRequest) naming the tool that is none.
base::Json read_tools(const Reader& reader, std::string_view name);

}  // namespace penstock::api
