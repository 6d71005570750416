#include "api/responses/routes.h"

#include <memory>

#include "api/body.h"
#include "api/openai/errors.h"
#include "api/responses/creation.h"
#include "api/responses/stored.h"

namespace penstock::api::responses {

void add_routes(http::Router& router, serve::Service& service, Ignored& ignored, const Stores& stores,
                http::StreamOptions stream) {
  const auto parts = std::make_shared<Parts>(service, ignored, std::move(stream), stores);
  Surface surface(router, service, ignored, openai::error_response);
  surface.add_generating(
      "POST", "/v1/responses", "openai_responses",
      [parts](const auto& request, auto origin, const ExchangePtr& exchange) {
        Create create = decode_create(parse_body(request));
        std::make_shared<Creation>(parts, std::move(create), std::move(origin), exchange)->start();
      });
  const auto stored = std::make_shared<const Stored>(parts);
  const auto add = [&](const char* method, const char* pattern, auto handle) {
    surface.add(method, pattern, [stored, handle](const http::Request& request, const ExchangePtr& exchange) {
      ((*stored).*handle)(request, exchange);
    });
  };
  add("GET", "/v1/responses/{id}", &Stored::retrieve);
  add("DELETE", "/v1/responses/{id}", &Stored::erase);
  add("POST", "/v1/responses/{id}/cancel", &Stored::cancel);
  add("GET", "/v1/responses/{id}/input_items", &Stored::input_items);
}

}  // namespace penstock::api::responses
