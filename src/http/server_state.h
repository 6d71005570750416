// What all connections of one server share: options, routes and counters. Immutable but for the atomics; any
// thread.
#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>

#include "base/error.h"
#include "http/router.h"
#include "http/server.h"

namespace penstock::http {

struct ServerState {
  ServerOptions options;
  Router router;
  std::atomic<bool> draining{false};
  std::atomic<size_t> connections{0};

  void begin_request();
  void end_request();
  size_t active_requests() const;
  /// False when requests are still in flight after `timeout_ms`.
  bool wait_idle(int timeout_ms);

  /// options.error_response, or the default when there is none or when it throws.
  Response error_response(const base::Error& error, const Request& request) const;
  /// options.decorate, which may not fail a response.
  void decorate(const Request& request, Response& response) const;

 private:
  mutable std::mutex mutex_;
  std::condition_variable idle_;
  size_t active_ = 0;
};

/// {"error":{"message","type","param","code"}} with a status by code.
Response default_error_response(const base::Error& error);

}  // namespace penstock::http
