// Blocking HTTP client for worker threads: downloads, hub queries, other servers. One Client per thread; it
// keeps its connections. Proxy variables of the environment are honoured. It does not retry.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "http/message.h"

namespace penstock::http {

/// One answer on the way to the last: its status and headers as received.
struct Hop {
  std::string url;
  int status = 0;
  std::vector<Header> headers;
  std::string_view header(std::string_view name) const { return find_header(headers, name); }
};

struct ClientRequest {
  std::string method = "GET";
  std::string url;
  std::vector<Header> headers;  // Authorization and Cookie go to the first origin only
  std::string body;
  std::optional<uint64_t> range_begin;  // first byte wanted
  std::optional<uint64_t> range_end;    // last byte wanted, needs range_begin
  int max_redirects = 10;               // 0: a redirect is the answer; more hops than that: kIo
  int connect_timeout_ms = 10000;
  int stall_timeout_ms = 30000;  // no byte for so long: kTimeout; 0: never
  int total_timeout_ms = 0;      // 0: no limit
  std::string unix_socket;       // connect here instead of to the URL's host

  /// Sees the last hop's head before its body; false: kCancelled.
  std::function<bool(const Hop&)> on_head;
  /// Takes the body in pieces, if the last status is 2xx; other bodies go to ClientResponse::body. False:
  /// kCancelled.
  std::function<bool(std::string_view)> on_body;
  /// Bytes so far and expected (0: unknown) of a 2xx body; false: kCancelled.
  std::function<bool(uint64_t done_bytes, uint64_t total_bytes)> on_progress;
  /// Becomes true: kCancelled within a fraction of a second.
  const std::atomic<bool>* cancel = nullptr;
};

struct ClientResponse {
  Hop last;
  std::vector<Hop> redirects;  // the hops before it, in order
  std::string body;            // empty when on_body took it
};

struct ClientOptions {
  std::string user_agent = "penstock";
  std::string ca_file;               // empty: the system's certificates
  size_t max_body_bytes = 64 << 20;  // of ClientResponse::body: more is kTooLarge
};

class Client {
 public:
  explicit Client(ClientOptions options = {});
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  /// Any status is an answer. Throws Error: kIo (network, TLS, redirects), kTimeout, kCancelled, kTooLarge;
  /// the message names the URL without its query.
  ClientResponse send(const ClientRequest& request);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace penstock::http
