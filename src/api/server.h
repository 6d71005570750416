// The whole HTTP side of `penstock serve`: a server made from settings, with access rules, error shapes and
// the surfaces mounted. One owner thread; see shutdown.h for signals.
#pragma once

#include <memory>
#include <string>

#include "api/access.h"
#include "api/metrics.h"
#include "api/stores.h"
#include "config/settings.h"
#include "http/server.h"
#include "serve/service.h"

namespace penstock::api {

/// What would keep a server from starting, whatever its model: throws as ApiServer and its start() would.
void check_settings(const config::Settings& settings);

class ApiServer {
 public:
  /// Reads the key file. Throws Error(kInvalidRequest) for an empty key and for an address other than
  /// loopback without a key. `service` must outlive it.
  ApiServer(const config::Settings& settings, serve::Service& service, const Stores& stores);

  /// Binds and serves, and goes on with batches. Throws Error(kIo) when the address is taken.
  void start();

  std::string url() const { return server_->url(); }

  /// Refuses new requests with 503 and lets running ones finish for up to `timeout_ms`; what is left then
  /// gets an error and is broken off. Ends the service's threads too.
  void drain_and_stop(int timeout_ms);

 private:
  http::ServerOptions options(const config::Settings& settings);
  std::optional<http::Response> gate(const http::Request& request) const;
  void decorate(const http::Request& request, http::Response& response);

  serve::Service& service_;
  const Stores stores_;
  const Access access_;
  Meters meters_;
  std::shared_ptr<http::Router> batch_routes_;
  std::unique_ptr<http::Server> server_;
};

/// Whether requests may change the models that are served: what the setting model_changes comes to.
bool may_change_models(const config::Settings& settings);

/// The key of the settings: api_key, or the first line of api_key_file; empty where neither is set.
std::string read_api_key(const config::Settings& settings);

}  // namespace penstock::api
