#include <string>

#include "api/admin/body.h"
#include "api/admin/routes.h"
#include "api/reader.h"
#include "base/json.h"

namespace penstock::api::admin {
namespace {

using base::Json;
using serve::SessionRecord;
using serve::SessionState;

constexpr int64_t kMaxTtlMs = int64_t{10} * 365 * 24 * 3600 * 1000;
constexpr int64_t kDayMs = 24 * 3600 * 1000;

Json record_json(const SessionRecord& record) {
  return {{"id", record.id},
          {"object", "session"},
          {"model", record.model},
          {"tokens", record.tokens.size()},
          {"created", record.created_ms / 1000},
          {"last_used", record.used_ms / 1000},
          {"state", record.parked ? "parked" : "live"},
          {"pinned_until", record.pinned_until_ms == 0 ? Json() : Json(record.pinned_until_ms / 1000)}};
}

Json state_json(const SessionState& state) {
  Json json = record_json(state.record);
  json["memory_tokens"] = state.cache.memory_tokens;
  json["disk_tokens"] = state.cache.disk_tokens;
  return json;
}

serve::OnSession answer(const Exchange& exchange) {
  return [exchange](const std::variant<SessionState, base::Error>& result) {
    if (const auto* error = std::get_if<base::Error>(&result)) {
      return exchange->respond(openai::error_response(*error));
    }
    exchange->respond(http::json_response(200, state_json(std::get<SessionState>(result))));
  };
}

const std::string& id_of(const http::Request& request) {
  return request.params.at("id");
}

using Act = void (serve::Sessions::*)(const std::string&, serve::OnSession);

/// A route without a body.
http::Handler acting(serve::Service& service, Act act) {
  return guarded([&service, act](const http::Request& request, const Exchange& exchange) {
    read_body(request, {});
    (service.sessions().*act)(id_of(request), answer(exchange));
  });
}

}  // namespace

void add_session_routes(http::Router& router, serve::Service& service) {
  router.add("GET", "/v1/sessions", [&service](const http::Request&, const Exchange& exchange) {
    Json data = Json::array();
    for (const SessionRecord& record : service.sessions().list()) data.push_back(record_json(record));
    exchange->respond(http::json_response(200, {{"object", "list"}, {"data", std::move(data)}}));
  });
  router.add("GET", "/v1/sessions/{id}", acting(service, &serve::Sessions::look));
  router.add("GET", "/v1/sessions/{id}/stats", acting(service, &serve::Sessions::look));
  router.add("DELETE", "/v1/sessions/{id}", acting(service, &serve::Sessions::erase));
  router.add("POST", "/v1/sessions/{id}/park", acting(service, &serve::Sessions::park));
  router.add("POST", "/v1/sessions/{id}/resume", acting(service, &serve::Sessions::resume));
  router.add("POST", "/v1/sessions/{id}/prefetch",
             guarded([&service](const http::Request& request, const Exchange& exchange) {
               read_body(request, {});
               service.sessions().resume(id_of(request), [](const auto&) {});
               exchange->respond(http::json_response(202, {{"id", id_of(request)}, {"status", "fetching"}}));
             }));
  router.add("POST", "/v1/sessions/{id}/pin",
             guarded([&service](const http::Request& request, const Exchange& exchange) {
               const Json body = read_body(request, {"ttl_ms"});
               const int64_t ttl = Reader(body).integer("ttl_ms", 1, kMaxTtlMs).value_or(kDayMs);
               service.sessions().pin(id_of(request), ttl, answer(exchange));
             }));
  router.add("POST", "/v1/sessions/{id}/unpin",
             guarded([&service](const http::Request& request, const Exchange& exchange) {
               read_body(request, {});
               service.sessions().pin(id_of(request), 0, answer(exchange));
             }));
  router.add(
      "GET", "/v1/sessions/{id}/context",
      guarded([&service](const http::Request& request, const Exchange& exchange) {
        service.sessions().context(id_of(request), [exchange, id = id_of(request)](
                                                       const std::variant<std::string, base::Error>& result) {
          if (const auto* error = std::get_if<base::Error>(&result)) {
            return exchange->respond(openai::error_response(*error));
          }
          exchange->respond(http::json_response(200, {{"id", id}, {"text", std::get<std::string>(result)}}));
        });
      }));
}

}  // namespace penstock::api::admin
