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

base::Json disk_json(const tier::DiskStats& disk, const engine::Counters& c) {
  return {{"blocks", disk.blocks},         {"bytes", disk.bytes},
          {"written", disk.written},       {"read", disk.read},
          {"restored", c.blocks_restored}, {"evicted", disk.evicted},
          {"dropped", disk.dropped},       {"corrupt", disk.corrupt},
          {"failed", disk.failed},         {"queued_bytes", disk.queued_bytes}};
}

}  // namespace

void add_cache_routes(http::Router& router, serve::Service& service) {
  router.add("GET", "/v1/cache/stats", [&service](const http::Request&, const Exchange& exchange) {
    const engine::Counters counters = service.engine_counters();
    base::Json json = cache_json(counters);
    const auto disk = service.disk_stats();
    json["disk"] = disk ? disk_json(*disk, counters) : base::Json();
    exchange->respond(http::json_response(200, json));
  });
  router.add("POST", "/v1/cache/clear", [&service](const http::Request&, const Exchange& exchange) {
    service.clear_cache();
    exchange->respond(http::json_response(202, {{"status", "clearing"}}));
  });
}

}  // namespace penstock::api::admin
