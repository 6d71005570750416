#include "api/anthropic/errors.h"

#include <array>
#include <string_view>

namespace penstock::api::anthropic {
namespace {

using base::Code;
using base::Json;

struct Row {
  Code code;
  int status;
  std::string_view type;
};

constexpr std::array kRows = {
    Row{Code::kInvalidRequest, 400, "invalid_request_error"},
    Row{Code::kContextLength, 400, "invalid_request_error"},
    Row{Code::kUnsupported, 400, "invalid_request_error"},
    Row{Code::kUnauthorized, 401, "authentication_error"},
    Row{Code::kForbidden, 403, "permission_error"},
    Row{Code::kNotFound, 404, "not_found_error"},
    Row{Code::kMethodNotAllowed, 405, "invalid_request_error"},
    Row{Code::kTimeout, 408, "timeout_error"},
    Row{Code::kTooLarge, 413, "request_too_large"},
    Row{Code::kUnsupportedMedia, 415, "invalid_request_error"},
    Row{Code::kCancelled, 499, "api_error"},
    Row{Code::kCorrupt, 500, "api_error"},
    Row{Code::kIo, 500, "api_error"},
    Row{Code::kInternal, 500, "api_error"},
    Row{Code::kUnavailable, 503, "overloaded_error"},
    Row{Code::kOverloaded, 529, "overloaded_error"},
};

const Row& row_of(Code code) {
  for (const Row& row : kRows) {
    if (row.code == code) return row;
  }
  return kRows.back();
}

bool is_below(std::string_view path, std::string_view root) {
  return path.starts_with(root) && (path.size() == root.size() || path[root.size()] == '/');
}

}  // namespace

bool is_own(const http::Request& request) {
  if (is_below(request.path, "/v1/messages") || is_below(request.path, "/v1/v1/messages")) return true;
  return is_below(request.path, "/v1/models") && !request.header("anthropic-version").empty();
}

Json error_envelope(const base::Error& error) {
  return {{"type", "error"}, {"error", {{"type", row_of(error.code()).type}, {"message", error.text()}}}};
}

int status_of(Code code) {
  return row_of(code).status;
}

http::Response error_response(const base::Error& error) {
  return http::json_response(status_of(error.code()), error_envelope(error));
}

}  // namespace penstock::api::anthropic
