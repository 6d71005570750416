#include "http/server_state.h"

#include <chrono>

#include "base/json.h"
#include "base/log.h"

namespace penstock::http {
namespace {

int status_of(base::Code code) {
  switch (code) {
    case base::Code::kInvalidRequest:
    case base::Code::kContextLength:
    case base::Code::kUnsupported:
      return 400;
    case base::Code::kUnauthorized:
      return 401;
    case base::Code::kForbidden:
      return 403;
    case base::Code::kNotFound:
      return 404;
    case base::Code::kMethodNotAllowed:
      return 405;
    case base::Code::kTimeout:
      return 408;
    case base::Code::kTooLarge:
      return 413;
    case base::Code::kUnsupportedMedia:
      return 415;
    case base::Code::kOverloaded:
      return 429;
    case base::Code::kCancelled:
      return 499;
    case base::Code::kUnavailable:
      return 503;
    case base::Code::kCorrupt:
    case base::Code::kIo:
    case base::Code::kInternal:
      break;
  }
  return 500;
}

}  // namespace

Response default_error_response(const base::Error& error) {
  const int status = status_of(error.code());
  base::Json body;
  body["message"] = std::string(error.text());
  body["type"] = status < 500 ? "invalid_request_error" : "api_error";
  body["param"] = error.param().empty() ? base::Json() : base::Json(error.param());
  body["code"] = std::string(base::name(error.code()));
  return json_response(status, {{"error", body}});
}

Response ServerState::error_response(const base::Error& error, const Request& request) const {
  if (options.error_response) {
    try {
      return options.error_response(error, request);
    } catch (const std::exception& failure) {
      base::log::error("[http.error] the error hook failed: {}", failure.what());
    }
  }
  return default_error_response(error);
}

void ServerState::decorate(const Request& request, Response& response) const {
  if (!options.decorate) return;
  try {
    options.decorate(request, response);
  } catch (const std::exception& failure) {
    base::log::error("[http.decorate] the hook failed: {}", failure.what());
  }
}

void ServerState::begin_request() {
  const std::lock_guard lock(mutex_);
  ++active_;
}

void ServerState::end_request() {
  const std::lock_guard lock(mutex_);
  if (--active_ == 0) idle_.notify_all();
}

size_t ServerState::active_requests() const {
  const std::lock_guard lock(mutex_);
  return active_;
}

bool ServerState::wait_idle(int timeout_ms) {
  std::unique_lock lock(mutex_);
  return idle_.wait_for(lock, std::chrono::milliseconds(timeout_ms), [&] { return active_ == 0; });
}

}  // namespace penstock::http
