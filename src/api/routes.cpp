#include "api/routes.h"

#include <memory>

#include "api/admin/routes.h"
#include "api/admin/status.h"
#include "api/health.h"
#include "api/openai/routes.h"

namespace penstock::api {

void mount(http::Router& router, serve::Service& service, Meters& meters, const config::Settings& settings) {
  openai::RouteOptions options;
  options.stream.keepalive_ms = static_cast<int>(settings.sse_keepalive_ms);
  openai::add_routes(router, service, meters.ignored, options);
  admin::add_routes(router, service);
  admin::add_status_routes(router, service, meters);
  add_health_routes(router, service);
  router.add("GET", "/metrics",
             [&service, &meters](const http::Request&, const std::shared_ptr<http::Exchange>& exchange) {
               http::Response response;
               response.content_type = "text/plain; version=0.0.4; charset=utf-8";
               response.body = render_metrics(service, meters);
               exchange->respond(std::move(response));
             });
}

}  // namespace penstock::api
