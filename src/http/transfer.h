// One request of the client on the wire: collects head and body, asks the caller's callbacks, keeps time.
// Belongs to the thread of its Client; knows nothing of libcurl.
#pragma once

#include <chrono>
#include <cstdint>
#include <exception>
#include <string>
#include <string_view>

#include "base/error.h"
#include "http/client.h"

namespace penstock::http {

using TransferClock = std::chrono::steady_clock;

/// An error that names the URL without its query.
base::Error fetch_failure(base::Code code, const std::string& url, const std::string& what);

class Transfer {
 public:
  Transfer(const ClientRequest& client_request, std::string url, size_t body_limit_bytes,
           TransferClock::time_point begin);

  const ClientRequest& request;
  Hop hop;
  std::string body;  // what on_body does not take
  TransferClock::time_point last_byte;
  std::exception_ptr thrown;  // by a callback, or our own reason to stop

  /// Adds one received line. A status line begins the head anew: interim answers come before the real one.
  void add_head_line(std::string_view line);
  /// Call when the head is complete: before the first byte of the body, and at the end.
  void end_head();
  void take(std::string_view piece);
  /// Sets `thrown` when time is over or the caller has cancelled.
  void check_time();

  /// True when the answer leads on and is to be followed.
  bool is_redirect() const;
  base::Error failure(base::Code code, const std::string& what) const {
    return fetch_failure(code, hop.url, what);
  }

 private:
  base::Error cancelled() const;
  bool is_success() const { return hop.status >= 200 && hop.status < 300; }

  const size_t body_limit_bytes_;
  const TransferClock::time_point begin_;
  size_t head_bytes_ = 0;
  uint64_t done_bytes_ = 0, total_bytes_ = 0;
  bool head_complete_ = false;
};

}  // namespace penstock::http
