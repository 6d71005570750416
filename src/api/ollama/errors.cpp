#include "api/ollama/errors.h"

#include <string>

#include "api/openai/errors.h"

namespace penstock::api::ollama {

base::Json error_json(const base::Error& error) {
  return {{"error", std::string(error.text())}};
}

/// The statuses are those of the other surfaces.
http::Response error_response(const base::Error& error) {
  return http::json_response(openai::status_of(error.code()), error_json(error));
}

}  // namespace penstock::api::ollama
