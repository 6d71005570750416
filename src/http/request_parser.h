// Turns the bytes of one request into a Request, within limits. Fed by the session on its io thread; no I/O,
// no clock.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "http/message.h"
#include "http/server.h"

namespace penstock::http {

/// An error that the transport answers itself, with the status it must have.
struct Refusal {
  int status;
  base::Error error;
};

class RequestParser {
 public:
  enum class State { kNeedMore, kDone, kFailed };

  explicit RequestParser(const Limits& limits);
  ~RequestParser();

  /// Takes from the front of `input` and sets `used_bytes`; unused bytes must be offered again, with more
  /// behind them.
  State parse_head(std::string_view input, size_t& used_bytes);
  /// The same for the body, after the head is done.
  State parse_body(std::string_view input, size_t& used_bytes);

  /// What of the body was parsed and not taken yet, for one that is not to be held whole.
  std::string take_body();
  /// In place of the limits' own. After the head.
  void set_body_limit(uint64_t bytes);

  /// Turns into a refusal with 408.
  void time_out(std::string_view part);

  /// Why the last call returned kFailed.
  const Refusal& refusal() const { return *refusal_; }

  // What follows is valid once the head is done.
  Request& request() { return request_; }  // its body once the body is done
  const std::string& raw_path() const { return raw_path_; }
  bool http11() const { return http11_; }
  bool keep_alive() const { return keep_alive_; }
  bool has_body() const;
  bool expects_continue() const { return expects_continue_; }
  std::optional<uint64_t> content_length() const;  // nothing when chunked
  /// What the head asks for and this server does not do: other expectations, coded bodies, too large a body.
  std::optional<Refusal> unacceptable() const;

 private:
  struct Impl;
  State fail(int status, base::Code code, const std::string& message);
  State take_head();
  State take_target(std::string_view target);

  const size_t max_header_bytes_;
  uint64_t max_body_bytes_;
  std::unique_ptr<Impl> impl_;
  std::optional<Refusal> refusal_;
  Request request_;
  std::string raw_path_;
  size_t header_bytes_ = 0;
  bool http11_ = true, keep_alive_ = false, expects_continue_ = false;
};

}  // namespace penstock::http
