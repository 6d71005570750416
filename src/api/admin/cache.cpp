#include "api/admin/routes.h"
#include "base/json.h"

namespace penstock::api::admin {
namespace {

base::Json cache_json(const engine::Counters& c) {
  const cache::PrefixStats& p = c.prefix;
  const double share =
      p.tokens == 0 ? 0 : static_cast<double>(p.tokens_found) / static_cast<double>(p.tokens);
  return {{"blocks", {{"total", c.blocks_total}, {"used", c.blocks_used}, {"kept", c.blocks_kept}}},
          {"prefix",
           {{"lookups", p.lookups},
            {"hits", p.hits},
            {"tokens_asked", p.tokens},
            {"tokens_saved", p.tokens_found},
            {"share_saved", share},
            {"entries", p.entries},
            {"inserted", p.inserted},
            {"evicted", p.evicted}}},
          {"preempted", c.preempted}};
}

}  // namespace

void add_cache_routes(http::Router& router, serve::Service& service) {
  router.add("GET", "/v1/cache/stats", [&service](const http::Request&, const Exchange& exchange) {
    exchange->respond(http::json_response(200, cache_json(service.engine_counters())));
  });
  router.add("POST", "/v1/cache/clear", [&service](const http::Request&, const Exchange& exchange) {
    service.clear_cache();
    exchange->respond(http::json_response(202, {{"status", "clearing"}}));
  });
}

}  // namespace penstock::api::admin
