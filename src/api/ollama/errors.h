// Errors as Ollama's clients know them: {"error": "text"}. Pure functions.
#pragma once

#include "base/error.h"
#include "base/json.h"
#include "http/message.h"

namespace penstock::api::ollama {

base::Json error_json(const base::Error& error);
http::Response error_response(const base::Error& error);

}  // namespace penstock::api::ollama
