// HTTP/1.1 over TCP and a Unix socket: listener, io threads, limits, drain. start(), drain() and stop()
// belong to one owner thread, which is not an io thread; the rest may be asked from anywhere. No TLS and no
// HTTP/2: a proxy does those.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/error.h"
#include "http/exchange.h"
#include "http/message.h"
#include "http/router.h"

namespace penstock::http {

struct Limits {
  size_t max_header_bytes = 64 << 10;    // over it: 431
  size_t max_body_bytes = 64 << 20;      // over it: 413
  int header_timeout_ms = 15000;         // from the first byte of a request to the end of its head: 408
  int body_timeout_ms = 120000;          // for the whole body: 408
  int idle_timeout_ms = 120000;          // a connection without a request is closed
  int write_timeout_ms = 60000;          // a peer that takes no byte for so long is gone
  size_t max_connections = 1024;         // over it: 503
  size_t stream_buffer_bytes = 1 << 20;  // unsent bytes at which a stream's reader is too slow
};

struct ServerOptions {
  std::string host = "127.0.0.1";
  int port = 0;             // 0: any free one; -1: no TCP
  std::string unix_socket;  // path, made with mode 0600; empty: none
  Limits limits;
  int io_threads = 1;

  /// Body of an error that the transport itself or a throwing handler made. For 404, 405, 408, 413, 415, 417,
  /// 431, 501 and 503 of the transport the status is set after this call. The request may be empty (malformed
  /// input). Default: the OpenAI envelope with a status by code.
  std::function<Response(const base::Error&, const Request&)> error_response;

  /// Sees every response just before it is sent: CORS, request id.
  std::function<void(const Request&, Response&)> decorate;

  /// Runs after the head and before route and body: a response, or a thrown base::Error, refuses the request.
  /// For authentication and host checks. Must let OPTIONS through where browsers may ask: a preflight has no
  /// key.
  std::function<std::optional<Response>(const Request&)> gate;
};

/// Binds the addresses of `options` and lets go of them: throws as start() would, before long work is done
/// for a server that cannot start.
void try_addresses(const ServerOptions& options);

class Server {
 public:
  Server(ServerOptions options, Router router);
  ~Server();  // stop()
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  /// Binds, listens, starts the io threads. Throws Error(kIo) that names the address and the flag to change.
  void start();

  int port() const;         // the bound TCP port; 0 without TCP
  std::string url() const;  // "http://127.0.0.1:8080", or "unix:/run/penstock.sock" without TCP

  /// Closes the listeners; connections live on.
  void stop_accepting();

  /// From now on new requests get 503 (unless the gate answers them itself) and every answer ends its
  /// connection. Waits until no request is in flight: true, or false after `timeout_ms`.
  bool drain(int timeout_ms);

  /// Breaks off what is left, runs its on_disconnect callbacks, ends the threads. Idempotent.
  void stop();

  size_t open_connections() const;
  size_t active_requests() const;  // head read, answer not yet written

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace penstock::http
