#include "api/openai/errors.h"

#include <array>
#include <string>
#include <string_view>

#include "api/body.h"

namespace penstock::api::openai {
namespace {

using base::Code;
using base::Json;

struct Row {
  Code code;
  int status;
  std::string_view type;
  std::string_view word;
};

constexpr std::array kRows = {
    Row{Code::kInvalidRequest, 400, "invalid_request_error", "invalid_request"},
    Row{Code::kContextLength, 400, "invalid_request_error", "context_length_exceeded"},
    Row{Code::kUnauthorized, 401, "authentication_error", "invalid_api_key"},
    Row{Code::kForbidden, 403, "permission_error", "permission_denied"},
    Row{Code::kNotFound, 404, "not_found_error", "not_found"},
    Row{Code::kMethodNotAllowed, 405, "invalid_request_error", "method_not_allowed"},
    Row{Code::kTooLarge, 413, "invalid_request_error", "request_too_large"},
    Row{Code::kUnsupportedMedia, 415, "invalid_request_error", "unsupported_media_type"},
    Row{Code::kTimeout, 408, "api_error", "request_timeout"},
    Row{Code::kOverloaded, 429, "rate_limit_error", "overloaded"},
    Row{Code::kUnavailable, 503, "api_error", "unavailable"},
    Row{Code::kCancelled, 499, "api_error", "cancelled"},
    Row{Code::kCorrupt, 500, "api_error", "corrupt"},
    Row{Code::kUnsupported, 400, "invalid_request_error", "unsupported"},
    Row{Code::kIo, 500, "api_error", "io_error"},
    Row{Code::kInternal, 500, "api_error", "internal_error"},
};

// What the model that was named cannot do: no fault of the request's form.
constexpr Row kIncapable{Code::kUnsupported, 501, "api_error", "not_implemented"};

const Row& row_of(const base::Error& error) {
  if (error.code() == Code::kUnsupported && error.param() == "model") return kIncapable;
  for (const Row& row : kRows) {
    if (row.code == error.code()) return row;
  }
  return kRows.back();
}

std::string word_of(const base::Error& error) {
  if (const auto* coded = dynamic_cast<const CodedError*>(&error)) return coded->word();
  if (error.code() == Code::kNotFound && error.param() == "model") return "model_not_found";
  return std::string(row_of(error).word);
}

}  // namespace

Json error_envelope(const base::Error& error) {
  Json inner = {{"message", error.text()}, {"type", row_of(error).type}};
  inner["param"] = error.param().empty() ? Json() : Json(error.param());
  inner["code"] = word_of(error);
  Json envelope = Json::object();
  envelope["error"] = std::move(inner);
  return envelope;
}

http::Response error_response(const base::Error& error) {
  return http::json_response(row_of(error).status, error_envelope(error));
}

}  // namespace penstock::api::openai
