#include "api/health.h"

#include <memory>

#include "base/json.h"
#include "http/exchange.h"

namespace penstock::api {
namespace {

http::Response health(const serve::Service& service) {
  const serve::ModelCard card = service.models().front();
  const serve::State state = service.state();
  const bool is_ready = state == serve::State::kRunning;
  return http::json_response(is_ready ? 200 : 503, {{"status", is_ready ? "healthy" : serve::name(state)},
                                                    {"ready", is_ready},
                                                    {"model_loaded", card.loaded},
                                                    {"model_name", card.id},
                                                    {"model_type", card.family},
                                                    {"engine_type", card.executor}});
}

}  // namespace

bool is_probe(std::string_view path) {
  return path == "/health" || path == "/healthz" || path == "/readyz" || path == "/livez";
}

void add_health_routes(http::Router& router, const serve::Service& service) {
  const auto answer = [&service](const http::Request&, const std::shared_ptr<http::Exchange>& exchange) {
    exchange->respond(health(service));
  };
  for (const char* path : {"/health", "/healthz", "/readyz"}) router.add("GET", path, answer);
  router.add("GET", "/livez",
             [&service](const http::Request&, const std::shared_ptr<http::Exchange>& exchange) {
               exchange->respond(
                   http::json_response(200, {{"status", "alive"}, {"state", serve::name(service.state())}}));
             });
}

}  // namespace penstock::api
