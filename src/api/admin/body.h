// The body of an administrator's request: a small JSON object in which every name is known. Pure functions.
#pragma once

#include <initializer_list>
#include <string_view>

#include "base/json.h"
#include "http/message.h"

namespace penstock::api::admin {

/// The object, empty for an empty body. Throws Error(kInvalidRequest) with the name for one that is not in
/// `names`, and as parse_body does.
base::Json read_body(const http::Request& request, std::initializer_list<std::string_view> names);

}  // namespace penstock::api::admin
