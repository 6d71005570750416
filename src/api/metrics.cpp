#include "api/metrics.h"

#include <array>
#include <map>
#include <string_view>

#include <fmt/format.h>

#include "pool/memory.h"

namespace penstock::api {
namespace {

class Page {
 public:
  void counter(std::string_view name, std::string_view help, uint64_t value) {
    add(name, help, "counter", value);
  }
  void gauge(std::string_view name, std::string_view help, uint64_t value) {
    add(name, help, "gauge", value);
  }

  void head(std::string_view name, std::string_view help, std::string_view type) {
    text_.append("# HELP penstock_").append(name).append(" ").append(help).append("\n");
    text_.append("# TYPE penstock_").append(name).append(" ").append(type).append("\n");
  }

  template <class Number>
  void sample(std::string_view name, std::string_view labels, Number value) {
    fmt::format_to(std::back_inserter(text_), "penstock_{}{} {}\n", name, labels, value);
  }

  /// One histogram for each set of labels, `labels` without braces.
  void histogram(std::string_view name, std::string_view labels, const serve::Histogram& values) {
    const auto out = std::back_inserter(text_);
    uint64_t below = 0;
    for (size_t i = 0; i < values.counts.size(); ++i) {
      below += values.counts[i];
      const std::string bound = i < serve::Histogram::kBounds.size()
                                    ? fmt::format("{}", serve::Histogram::kBounds[i])
                                    : std::string("+Inf");
      fmt::format_to(out, "penstock_{}_bucket{{{},le=\"{}\"}} {}\n", name, labels, bound, below);
    }
    fmt::format_to(out, "penstock_{}_sum{{{}}} {}\n", name, labels, values.sum);
    fmt::format_to(out, "penstock_{}_count{{{}}} {}\n", name, labels, values.count);
  }

  std::string take() { return std::move(text_); }

 private:
  void add(std::string_view name, std::string_view help, std::string_view type, uint64_t value) {
    head(name, help, type);
    sample(name, "", value);
  }

  std::string text_;
};

void add_requests(Page& page, const serve::Counters& c) {
  page.counter("requests_received_total", "Generation requests that were read", c.received);
  page.gauge("requests_running", "Generation requests that have not ended", c.running);
  page.counter("requests_processed_total", "Generation requests that finished", c.finished);
  page.counter("requests_cancelled_total", "Generation requests that were cancelled", c.cancelled);
  page.counter("requests_cancelled_via_disconnect_total", "Those of them whose client went away",
               c.cancelled_via_disconnect);
  page.counter("requests_failed_total", "Generation requests that failed", c.failed);
  page.counter("requests_refused_total", "Generation requests that were refused before they started",
               c.refused);
  page.counter("prompt_tokens_total", "Prompt tokens of requests that started", c.prompt_tokens);
  page.counter("completion_tokens_total", "Tokens that were answered", c.completion_tokens);
}

/// Accepted tokens of a step that checked some, by what proposed them.
void add_drafts(Page& page, const engine::Counters& c) {
  using speculate::SourceStats;
  page.head("draft_accepted_tokens", "Proposed tokens that were drawn, of each step that checked some",
            "histogram");
  const std::array<std::string_view, speculate::kSources> names = {"lookup", "model"};
  for (size_t source = 0; source < names.size(); ++source) {
    const SourceStats& stats = c.drafts[source];
    const std::string label = fmt::format("source=\"{}\"", names[source]);
    uint64_t below = 0;
    for (size_t n = 0; n <= SourceStats::kMostTokens; ++n) {
      below += stats.steps[n];
      const bool is_bound = n == 0 || (n & (n - 1)) == 0;  // 0, 1, 2, 4, 8, 16
      if (is_bound)
        page.sample("draft_accepted_tokens_bucket", fmt::format("{{{},le=\"{}\"}}", label, n), below);
    }
    page.sample("draft_accepted_tokens_bucket", "{" + label + ",le=\"+Inf\"}", below);
    page.sample("draft_accepted_tokens_sum", "{" + label + "}", stats.accepted);
    page.sample("draft_accepted_tokens_count", "{" + label + "}", below);
  }
}

void add_engine(Page& page, const engine::Counters& c) {
  page.gauge("sequences_running", "Sequences in the engine's steps", c.running);
  page.gauge("sequences_waiting", "Sequences in the engine's queue", c.waiting);
  page.counter("sequences_submitted_total", "Sequences given to the engine", c.submitted);
  page.counter("sequences_refused_total", "Sequences that the engine refused", c.refused);
  page.counter("sequences_cancelled_total", "Sequences that were cancelled in the engine", c.cancelled);
  page.counter("sequences_expired_total", "Sequences that ran out of time", c.expired);
  page.counter("sequences_preempted_total", "Times that a sequence gave its blocks to others", c.preempted);
  page.counter("steps_executed_total", "Steps of the engine", c.steps);
  page.gauge("batch_width_max", "Most sequences in one step since the start", c.max_batch_width);
  page.gauge("kv_cache_blocks_used", "Blocks of the cache in use", c.blocks_used);
  page.gauge("kv_cache_blocks_kept", "Unused blocks that are kept for later prompts", c.blocks_kept);
  page.gauge("kv_cache_blocks_total", "Blocks of the cache", c.blocks_total);
  page.counter("prefix_cache_lookups_total", "Sequences whose beginning was looked for", c.prefix.lookups);
  page.counter("prefix_cache_hits_total", "Those of them of which some was found", c.prefix.hits);
  page.counter("prefix_cache_tokens_asked_total", "Tokens that were looked for", c.prefix.tokens);
  page.counter("prefix_cache_tokens_saved_total", "Tokens that were found and not computed again",
               c.prefix.tokens_found);
  page.counter("prefix_cache_evictions_total", "Kept blocks that were given to others", c.prefix.evicted);
  page.gauge("prefix_cache_entries", "Blocks that can be found", c.prefix.entries);
  speculate::SourceStats drafts;
  for (const speculate::SourceStats& of_source : c.drafts) drafts.add(of_source);
  page.counter("engine_drafts_proposed_total", "Tokens that were proposed", drafts.drafted);
  page.counter("engine_drafts_accepted_total", "Those of them that were drawn", drafts.accepted);
  page.counter("engine_draft_model_failures_total", "Failures of the draft model, which cost no answer",
               c.draft_model_failures);
  add_drafts(page, c);
  page.counter("engine_masks_total", "Masks that were computed for constrained tokens", c.masks);
  page.head("engine_mask_seconds_total", "Time that they took, beside the model's own work", "counter");
  page.sample("engine_mask_seconds_total", "", c.mask_seconds);
  page.counter("engine_prompt_tokens_total", "Prompt tokens that were computed", c.prompt_tokens);
}

void add_disk(Page& page, const tier::DiskStats& disk, const engine::Counters& c) {
  page.gauge("disk_cache_blocks", "Blocks on the disk", disk.blocks);
  page.gauge("disk_cache_bytes", "Their bytes", disk.bytes);
  page.counter("disk_cache_written_total", "Blocks that were written to the disk", disk.written);
  page.counter("disk_cache_restored_total", "Blocks that came back to memory", c.blocks_restored);
  page.counter("disk_cache_evicted_total", "Blocks that were removed to make room", disk.evicted);
  page.counter("disk_cache_dropped_total", "Blocks that the disk was too slow or too full for", disk.dropped);
  page.counter("disk_cache_corrupt_total", "Damaged blocks, which were set aside", disk.corrupt);
}

/// As Prometheus quotes: backslash, quotation mark and line feed.
std::string label_value(std::string_view value) {
  std::string out = "\"";
  for (const char c : value) {
    if (c == '\n') {
      out += "\\n";
      continue;
    }
    if (c == '\\' || c == '"') out += '\\';
    out += c;
  }
  return out + "\"";
}

std::string labels_of(const serve::Labels& labels) {
  return "model=" + label_value(labels.model) + ",surface=" + label_value(labels.surface) +
         ",outcome=" + label_value(serve::name(labels.outcome));
}

using AllSeries = std::map<serve::Labels, serve::Series>;

void add_histogram(Page& page, const AllSeries& all, serve::Histogram serve::Series::*member,
                   std::string_view name, std::string_view help) {
  page.head(name, help, "histogram");
  for (const auto& [labels, series] : all)
    if ((series.*member).count > 0) page.histogram(name, labels_of(labels), series.*member);
}

void add_series(Page& page, const AllSeries& all) {
  using serve::Series;
  add_histogram(page, all, &Series::queue, "queue_seconds", "From submission to the first step");
  add_histogram(page, all, &Series::first_token, "time_to_first_token_seconds",
                "From the end of reading the request to the first token");
  add_histogram(page, all, &Series::inter_token, "inter_token_seconds", "Between two tokens of an answer");
  add_histogram(page, all, &Series::per_token, "time_per_token_seconds",
                "Mean of a request's tokens after the first");
  add_histogram(page, all, &Series::whole, "request_duration_seconds", "From reading the request to its end");
  page.head("prompt_tokens_cached_total", "Prompt tokens that were found computed", "counter");
  for (const auto& [labels, series] : all)
    page.sample("prompt_tokens_cached_total", "{" + labels_of(labels) + "}", series.cached_tokens);
}

void add_memory(Page& page, const serve::MemoryWatch& watch) {
  if (watch.guard() == nullptr) return;
  const serve::MemoryWatch::Counters c = watch.counters();
  page.gauge("memory_limit_bytes", "Resident memory that the guard allows", watch.guard()->limit_bytes());
  page.gauge("memory_planned_bytes", "Memory that loaded models were planned to take",
             watch.guard()->planned_bytes());
  page.gauge("memory_pressure", "0 calm, 1 caches and idle models go, 2 new requests are refused",
             static_cast<uint64_t>(watch.pressure()));
  page.counter("memory_evictions_total", "Times that caches were forgotten for memory", c.evictions);
  page.counter("memory_unloads_total", "Idle models that were unloaded for memory", c.unloads);
  page.counter("memory_refused_total", "Requests that were refused for memory", c.refused);
}

}  // namespace

std::string render_metrics(const serve::Service& service, const Meters& meters) {
  Page page;
  add_requests(page, service.counters());
  const engine::Counters engine = service.engine_counters();
  add_engine(page, engine);
  if (const auto disk = service.disk_stats()) add_disk(page, *disk, engine);
  page.counter("ignored_fields_total", "Request fields that no surface knows", meters.ignored.fields);
  page.head("http_responses_total", "Answers by class of status", "counter");
  for (size_t i = 1; i < meters.responses_by_class.size(); ++i) {
    page.sample("http_responses_total", "{class=\"" + std::to_string(i) + "xx\"}",
                meters.responses_by_class[i].load());
  }
  page.counter("model_loads_total", "Models that were loaded", serve::Service::models_loaded());
  page.gauge("uptime_seconds", "Time since the start", static_cast<uint64_t>(meters.uptime_seconds()));
  if (const auto resident = pool::process_memory().resident_bytes)
    page.gauge("resident_memory_bytes", "Memory of the process that is in use", *resident);
  add_memory(page, service.memory());
  add_series(page, service.telemetry().series());
  return page.take();
}

}  // namespace penstock::api
