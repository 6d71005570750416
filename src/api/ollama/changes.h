// What every request that changes models is asked first.
#pragma once

#include "api/ollama/routes.h"
#include "http/message.h"

namespace penstock::api::ollama {

/// Throws Error(kForbidden) where requests may not change models, and for a request that a web page of
/// another origin sent: a browser sends some of those without asking.
void require_change(const Context& context, const http::Request& request);

}  // namespace penstock::api::ollama
