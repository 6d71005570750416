#include "api/server.h"

#include <fstream>
#include <string_view>

#include "api/anthropic/errors.h"
#include "api/error_shape.h"
#include "api/health.h"
#include "api/openai/batches.h"
#include "api/routes.h"
#include "base/error.h"
#include "base/log.h"

namespace penstock::api {
namespace {

using base::Code;
using base::Error;

bool is_loopback(std::string_view host) {
  return host == "localhost" || host == "::1" || host == "[::1]" || host.starts_with("127.");
}

http::Limits limits_of(const config::Settings& settings) {
  http::Limits limits;
  limits.max_body_bytes = static_cast<size_t>(settings.max_body_bytes);
  limits.header_timeout_ms = static_cast<int>(settings.header_timeout_ms);
  limits.body_timeout_ms = static_cast<int>(settings.body_timeout_ms);
  limits.idle_timeout_ms = static_cast<int>(settings.idle_timeout_ms);
  limits.write_timeout_ms = static_cast<int>(settings.write_timeout_ms);
  limits.max_connections = static_cast<size_t>(settings.max_connections);
  return limits;
}

http::ServerOptions addresses_of(const config::Settings& settings) {
  http::ServerOptions options;
  options.host = settings.host;
  options.port = settings.unix_socket.empty() ? static_cast<int>(settings.port) : -1;
  options.unix_socket = settings.unix_socket;
  return options;
}

AccessOptions access_of(const config::Settings& settings) {
  AccessOptions options{read_api_key(settings), settings.cors_origins};
  // A key, and a socket that no browser reaches, do what the check of the name is for.
  options.checks_host = options.api_key.empty() && settings.unix_socket.empty();
  options.trusted_hosts = settings.trusted_hosts;
  if (options.api_key.empty() && settings.unix_socket.empty() && !is_loopback(settings.host)) {
    throw Error(Code::kInvalidRequest, "[api.server] expected an API key (--api-key-file) to listen on " +
                                           settings.host + ", which other machines can reach; got none");
  }
  return options;
}

}  // namespace

std::string read_api_key(const config::Settings& settings) {
  if (settings.api_key_file.empty()) return settings.api_key;
  std::ifstream file(settings.api_key_file);
  std::string key;
  std::getline(file, key);
  key.erase(key.find_last_not_of(" \t\r") + 1);
  if (key.empty()) {
    throw Error(Code::kInvalidRequest,
                "[api.server] expected a key in the first line of " + settings.api_key_file + "; got none");
  }
  return key;
}

bool may_change_models(const config::Settings& settings) {
  if (settings.model_changes != "auto") return settings.model_changes == "on";
  return !settings.unix_socket.empty() || is_loopback(settings.host);
}

void check_settings(const config::Settings& settings) {
  access_of(settings);
  http::try_addresses(addresses_of(settings));
}

ApiServer::ApiServer(const config::Settings& settings, serve::Service& service, const Stores& stores)
    : service_(service),
      stores_(stores),
      access_(access_of(settings)),
      batch_routes_(std::make_shared<http::Router>()) {
  mount_generating(*batch_routes_, service_, meters_, stores, settings);
  http::Router router;
  mount(router, service_, meters_, stores, settings);
  server_ = std::make_unique<http::Server>(options(settings), std::move(router));
}

void ApiServer::start() {
  stores_.batches.start(openai::make_batch_runner(batch_routes_));
  server_->start();
}

http::ServerOptions ApiServer::options(const config::Settings& settings) {
  http::ServerOptions options = addresses_of(settings);
  options.limits = limits_of(settings);
  options.io_threads = static_cast<int>(settings.io_threads);
  options.error_response = [](const Error& error, const http::Request& request) {
    return error_response(error, request);
  };
  options.decorate = [this](const http::Request& request, http::Response& response) {
    decorate(request, response);
  };
  options.gate = [this](const http::Request& request) { return gate(request); };
  return options;
}

std::optional<http::Response> ApiServer::gate(const http::Request& request) const {
  if (auto refused = access_.refuse(request)) return refused;
  if (service_.state() != serve::State::kStopping || is_probe(request.path)) return std::nullopt;
  return error_response(
      Error(Code::kUnavailable, "[api.server] expected a running server; got one that is about to stop"),
      request);
}

void ApiServer::decorate(const http::Request& request, http::Response& response) {
  meters_.count_response(response.status);
  if (http::find_header(response.headers, "x-request-id").empty())
    response.headers.push_back({"x-request-id", request_id(request)});
  if (anthropic::is_own(request)) {
    response.headers.push_back(
        {"request-id", std::string(http::find_header(response.headers, "x-request-id"))});
  }
  const bool is_for_later = response.status == 429 || response.status == 503 || response.status == 529;
  if (is_for_later && http::find_header(response.headers, "retry-after").empty()) {
    response.headers.push_back({"Retry-After", std::to_string(service_.retry_after_seconds())});
  }
  access_.add_cors(request, response);
}

void ApiServer::drain_and_stop(int timeout_ms) {
  constexpr int kFlushMs = 2000;
  stores_.batches.stop();
  service_.lifecycle().begin_stop();
  const bool is_idle = service_.wait_idle(timeout_ms);
  if (!is_idle) base::log::warn("requests still run after {} ms; they are ended", timeout_ms);
  service_.stop();
  server_->drain(kFlushMs);
  server_->stop();
}

}  // namespace penstock::api
