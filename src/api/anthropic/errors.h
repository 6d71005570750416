// The one table from error code to Anthropic's error shape, and which requests are answered in it. Pure
// functions.
#pragma once

#include "base/error.h"
#include "base/json.h"
#include "http/message.h"

namespace penstock::api::anthropic {

/// Whether the client speaks to this surface: /v1/messages and what is below it, also behind a doubled /v1,
/// and /v1/models with an anthropic-version header.
bool is_own(const http::Request& request);

/// {"type": "error", "error": {"type", "message"}}.
base::Json error_envelope(const base::Error& error);

int status_of(base::Code code);

/// Status and envelope. ApiServer adds Retry-After to 503 and 529.
http::Response error_response(const base::Error& error);

}  // namespace penstock::api::anthropic
