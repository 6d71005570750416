#include "api/admin/status.h"

#include <memory>
#include <optional>

#include "http/exchange.h"
#include "pool/memory.h"

namespace penstock::api::admin {
namespace {

using base::Json;

Json number_or_null(std::optional<uint64_t> value) {
  return value ? Json(*value) : Json();
}

/// What was planned for, and what the load really took.
Json model_memory_json(const pool::ModelMemory& memory) {
  return {{"on_device", memory.on_device},
          {"planned_bytes", memory.planned_bytes()},
          {"weight_bytes", memory.weight_bytes},
          {"cache_bytes", memory.cache_bytes},
          {"buffer_bytes", memory.buffer_bytes},
          {"measured_allocated_bytes", number_or_null(memory.measured_allocated_bytes)},
          {"measured_resident_bytes", number_or_null(memory.measured_resident_bytes)}};
}

Json models_json(const serve::Service& service) {
  Json models = Json::array();
  for (const serve::ModelCard& card : service.models()) {
    models.push_back({{"id", card.id},
                      {"loaded", card.loaded},
                      {"leases", card.leases},
                      {"family", card.family},
                      {"format", card.format},
                      {"executor", card.executor},
                      {"executor_detail", card.executor_detail},
                      {"context_length", card.context_length}});
    if (card.loaded) models.back()["memory"] = model_memory_json(card.memory);
  }
  return models;
}

Json requests_json(const serve::Counters& c) {
  return {{"received", c.received},
          {"running", c.running},
          {"finished", c.finished},
          {"cancelled", c.cancelled},
          {"cancelled_via_disconnect", c.cancelled_via_disconnect},
          {"failed", c.failed},
          {"refused", c.refused}};
}

Json source_json(const speculate::SourceStats& stats) {
  Json steps = Json::array();
  for (const uint64_t n : stats.steps) steps.push_back(n);
  return {{"drafted", stats.drafted}, {"accepted", stats.accepted}, {"steps_by_accepted", std::move(steps)}};
}

Json speculation_json(const engine::Counters& c) {
  return {{"lookup", source_json(c.drafts[static_cast<size_t>(speculate::Source::kLookup)])},
          {"model", source_json(c.drafts[static_cast<size_t>(speculate::Source::kModel)])},
          {"model_failures", c.draft_model_failures}};
}

Json mechanisms_json(const engine::Counters& c) {
  const cache::PrefixStats& p = c.prefix;
  Json prefix = {{"lookups", p.lookups},
                 {"hits", p.hits},
                 {"tokens_asked", p.tokens},
                 {"tokens_saved", p.tokens_found},
                 {"evicted", p.evicted}};
  Json batching = {{"steps", c.steps},
                   {"max_batch_width", c.max_batch_width},
                   {"prompt_tokens", c.prompt_tokens},
                   {"completion_tokens", c.completion_tokens}};
  return {{"batching", std::move(batching)},
          {"prefix_cache", std::move(prefix)},
          {"speculation", speculation_json(c)},
          {"preemption", {{"preempted", c.preempted}}},
          {"deadlines", {{"expired", c.expired}}}};
}

Json guard_json(const serve::MemoryWatch& watch) {
  const pool::MemoryGuard* guard = watch.guard();
  if (guard == nullptr) return {};
  const serve::MemoryWatch::Counters c = watch.counters();
  return {{"tier", guard->tier()},
          {"state", serve::name(watch.pressure())},
          {"limit_bytes", guard->limit_bytes()},
          {"reserve_bytes", guard->reserve_bytes()},
          {"planned_bytes", guard->planned_bytes()},
          {"free_bytes", guard->free_bytes()},
          {"evictions", c.evictions},
          {"unloads", c.unloads},
          {"refused", c.refused}};
}

Json memory_json(const serve::Service& service, const engine::Counters& c) {
  const pool::MemoryReading memory = pool::read_memory();
  Json json = Json::object();
  json["resident_bytes"] = number_or_null(memory.process.resident_bytes);
  json["peak_resident_bytes"] = number_or_null(memory.process.peak_resident_bytes);
  json["available_bytes"] = memory.machine.available_bytes;
  json["cgroup_limit_bytes"] = number_or_null(memory.cgroup.limit_bytes);
  json["cgroup_used_bytes"] = memory.cgroup.limit_bytes ? Json(memory.cgroup.used_bytes) : Json();
  json["cache_blocks"] = {{"used", c.blocks_used}, {"kept", c.blocks_kept}, {"total", c.blocks_total}};
  json["guard"] = guard_json(service.memory());
  return json;
}

Json receipts_json(const serve::Telemetry& telemetry) {
  Json receipts = Json::array();
  for (const serve::FinishedRequest& finished : telemetry.last()) {
    Json json = serve::finished_json(finished);
    json["ended_unix_ms"] = finished.ended_ms;
    receipts.push_back(std::move(json));
  }
  return receipts;
}

}  // namespace

Json status_json(const serve::Service& service, const Meters& meters) {
  const engine::Counters engine = service.engine_counters();
  Json json = {{"status", serve::name(service.state())},
               {"version", PENSTOCK_VERSION},
               {"uptime_s", meters.uptime_seconds()},
               {"models", models_json(service)},
               {"requests", requests_json(service.counters())}};
  json["sequences"] = {{"running", engine.running}, {"waiting", engine.waiting}};
  json["mechanisms"] = mechanisms_json(engine);
  if (const auto disk = service.disk_stats()) {
    json["mechanisms"]["disk_cache"] = {
        {"restored", engine.blocks_restored}, {"written", disk->written}, {"read", disk->read},
        {"evicted", disk->evicted},           {"dropped", disk->dropped}, {"corrupt", disk->corrupt}};
  }
  json["memory"] = memory_json(service, engine);
  json["receipts"] = receipts_json(service.telemetry());
  return json;
}

void add_status_routes(http::Router& router, const serve::Service& service, const Meters& meters) {
  router.add("GET", "/v1/status",
             [&service, &meters](const http::Request&, const std::shared_ptr<http::Exchange>& exchange) {
               exchange->respond(http::json_response(200, status_json(service, meters)));
             });
}

}  // namespace penstock::api::admin
