#include "api/error_shape.h"

#include "api/anthropic/errors.h"
#include "api/ollama/errors.h"
#include "api/openai/errors.h"

namespace penstock::api {

http::Response error_response(const base::Error& error, const http::Request& request) {
  if (request.path.starts_with("/api/")) return ollama::error_response(error);
  return anthropic::is_own(request) ? anthropic::error_response(error) : openai::error_response(error);
}

}  // namespace penstock::api
