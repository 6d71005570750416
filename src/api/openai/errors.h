// The one table from error code to OpenAI's error shape. Pure functions.
#pragma once

#include "base/error.h"
#include "base/json.h"
#include "http/message.h"

namespace penstock::api::openai {

/// {"error": {"message", "type", "param", "code"}}, always with all four.
base::Json error_envelope(const base::Error& error);

/// Status and envelope. ApiServer adds Retry-After to 429 and 503.
http::Response error_response(const base::Error& error);

}  // namespace penstock::api::openai
