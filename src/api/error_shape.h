// Which surface's error shape a request is answered in, for errors that no handler of a surface made: a
// missing key, an unknown route, a body that is too large. Pure.
#pragma once

#include "base/error.h"
#include "http/message.h"

namespace penstock::api {

http::Response error_response(const base::Error& error, const http::Request& request);

}  // namespace penstock::api
