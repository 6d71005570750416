// Which surface's error shape a path is answered in, for errors that no handler of a surface made: a missing
// key, an unknown route, a body that is too large. Pure.
#pragma once

#include <string_view>

#include "base/error.h"
#include "http/message.h"

namespace penstock::api {

http::Response error_response(const base::Error& error, std::string_view path);

}  // namespace penstock::api
