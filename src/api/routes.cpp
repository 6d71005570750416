#include "api/routes.h"

#include <filesystem>
#include <memory>
#include <string>

#include "api/admin/routes.h"
#include "api/admin/status.h"
#include "api/anthropic/routes.h"
#include "api/anthropic/signing_key.h"
#include "api/health.h"
#include "api/models.h"
#include "api/ollama/routes.h"
#include "api/openai/batches.h"
#include "api/openai/files.h"
#include "api/openai/routes.h"
#include "api/responses/routes.h"
#include "base/error.h"
#include "base/log.h"

namespace penstock::api {
namespace {

/// That of the settings, else one that is kept, else none.
std::string signing_key(const config::Settings& settings) {
  if (!settings.signing_key.empty() || settings.state_dir.empty()) return settings.signing_key;
  try {
    return anthropic::kept_signing_key(std::filesystem::path(settings.state_dir) / "signing.key");
  } catch (const base::Error& error) {
    if (error.code() != base::Code::kIo) throw;
    base::log::warn("thinking blocks of this run will be refused after a restart: {}", error.text());
    return {};
  }
}

}  // namespace

void mount_generating(http::Router& router, serve::Service& service, Meters& meters, const Stores& stores,
                      const config::Settings& settings) {
  openai::RouteOptions options;
  options.stream.keepalive_ms = static_cast<int>(settings.sse_keepalive_ms);
  openai::add_routes(router, service, meters.ignored, options);
  anthropic::add_routes(router, service, meters.ignored,
                        {options.stream.keepalive_ms, signing_key(settings)});
  add_model_routes(router, service);
  responses::add_routes(router, service, meters.ignored, stores, options.stream);
}

void mount(http::Router& router, serve::Service& service, Meters& meters, const Stores& stores,
           const config::Settings& settings) {
  mount_generating(router, service, meters, stores, settings);
  openai::add_file_routes(router, service, meters.ignored, stores.files);
  openai::add_batch_routes(router, service, meters.ignored, stores.batches);
  ollama::add_routes(router, {service, stores.library, meters.ignored, settings.cors_origins});
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
