#include "api/error_shape.h"

#include "api/openai/errors.h"

namespace penstock::api {

http::Response error_response(const base::Error& error, std::string_view /*path*/) {
  return openai::error_response(error);
}

}  // namespace penstock::api
