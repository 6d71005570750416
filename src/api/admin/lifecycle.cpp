#include <string>

#include "api/admin/body.h"
#include "api/admin/routes.h"
#include "api/reader.h"
#include "base/json.h"

namespace penstock::api::admin {
namespace {

constexpr int64_t kMaxTimeoutMs = 86'400'000;

/// 202 while the state that was asked for is still under way.
void answer(const serve::Service& service, const Exchange& exchange) {
  const serve::State state = service.state();
  const bool moves = state == serve::State::kDraining || state == serve::State::kSuspending;
  exchange->respond(http::json_response(
      moves ? 202 : 200, {{"state", serve::name(state)}, {"running", service.counters().running}}));
}

int64_t timeout_of(const http::Request& request) {
  const base::Json body = read_body(request, {"timeout_ms"});
  return Reader(body).integer("timeout_ms", 0, kMaxTimeoutMs).value_or(0);
}

}  // namespace

void add_lifecycle_routes(http::Router& router, serve::Service& service) {
  router.add("POST", "/v1/admin/quiesce",
             guarded([&service](const http::Request& request, const Exchange& exchange) {
               read_body(request, {});
               service.lifecycle().quiesce();
               answer(service, exchange);
             }));
  router.add("POST", "/v1/admin/resume",
             guarded([&service](const http::Request& request, const Exchange& exchange) {
               read_body(request, {});
               service.lifecycle().resume();
               answer(service, exchange);
             }));
  router.add(
      "POST", "/v1/admin/drain", guarded([&service](const http::Request& request, const Exchange& exchange) {
        service.lifecycle().drain(timeout_of(request), [&service, exchange] { answer(service, exchange); });
      }));
  router.add("POST", "/v1/admin/suspend",
             guarded([&service](const http::Request& request, const Exchange& exchange) {
               service.lifecycle().suspend(timeout_of(request),
                                           [&service, exchange] { answer(service, exchange); });
             }));
  router.add("POST", "/v1/requests/{id}/cancel",
             guarded([&service](const http::Request& request, const Exchange& exchange) {
               read_body(request, {});
               const std::string& id = request.params.at("id");
               if (!service.cancel(id)) {
                 throw base::Error(base::Code::kNotFound,
                                   "[api.cancel] expected the id of a running request; got '" + id + "'",
                                   "id");
               }
               exchange->respond(http::json_response(200, {{"id", id}, {"status", "cancelling"}}));
             }));
}

}  // namespace penstock::api::admin
