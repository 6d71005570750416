#include "serve/telemetry.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/log_event.h"
#include "base/unix_time.h"

namespace penstock::serve {
namespace {

double rounded(double ms) {
  return std::round(ms * 1000) / 1000;
}

}  // namespace

void Histogram::observe(double seconds, uint64_t times) {
  const auto bucket = std::lower_bound(kBounds.begin(), kBounds.end(), seconds) - kBounds.begin();
  counts[static_cast<size_t>(bucket)] += times;
  sum += seconds * static_cast<double>(times);
  count += times;
}

void Histogram::add(const Histogram& other) {
  for (size_t i = 0; i < counts.size(); ++i) counts[i] += other.counts[i];
  sum += other.sum;
  count += other.count;
}

std::string_view name(Outcome outcome) {
  switch (outcome) {
    case Outcome::kStop:
      return "stop";
    case Outcome::kLength:
      return "length";
    case Outcome::kCancelled:
      return "cancelled";
    case Outcome::kDisconnected:
      return "disconnected";
    case Outcome::kExpired:
      return "expired";
    case Outcome::kFailed:
      return "failed";
    case Outcome::kRefused:
      return "refused";
  }
  return "";
}

base::Json finished_json(const FinishedRequest& f) {
  base::Json json = {{"id", f.id},
                     {"request_id", f.origin.request_id},
                     {"model", f.model},
                     {"surface", f.origin.surface},
                     {"outcome", name(f.outcome)},
                     {"prompt_tokens", f.usage.prompt_tokens},
                     {"cached_tokens", f.usage.cached_tokens},
                     {"completion_tokens", f.usage.completion_tokens},
                     {"preemptions", f.receipt.preemptions},
                     {"drafted", f.receipt.drafted},
                     {"accepted", f.receipt.accepted},
                     {"batch_width", f.receipt.batch_width},
                     {"queue_ms", rounded(f.receipt.queue_ms)},
                     {"prefill_ms", rounded(f.receipt.prefill_ms)},
                     {"decode_ms", rounded(f.receipt.decode_ms)},
                     {"total_ms", rounded(f.total_ms)}};
  if (f.receipt.masks > 0) {
    json["masks"] = f.receipt.masks;
    json["mask_ms"] = rounded(f.receipt.mask_ms);
  }
  if (f.first_token_ms) json["first_token_ms"] = rounded(*f.first_token_ms);
  if (!f.origin.trace_id.empty()) json["trace_id"] = f.origin.trace_id;
  if (!f.receipt.executor.empty()) json["executor"] = f.receipt.executor;
  if (!f.error.empty()) json["error"] = f.error;
  return json;
}

void Telemetry::end(FinishedRequest finished, const Histogram& gaps) {
  finished.ended_ms = base::unix_ms();
  if (base::logs_events()) base::log_event("request", finished_json(finished));
  const std::lock_guard lock(mutex_);
  count_locked(finished, gaps);
  last_.push_front(std::move(finished));
  if (last_.size() > kReceipts) last_.pop_back();
}

void Telemetry::count_locked(const FinishedRequest& f, const Histogram& gaps) {
  if (models_.size() < kModels) models_[f.model] = 1;
  const std::string model = models_.count(f.model) != 0 ? f.model : "other";
  Series& series = series_[{model, f.origin.surface, f.outcome}];
  series.whole.observe(f.total_ms / 1000);
  series.inter_token.add(gaps);
  series.prompt_tokens += static_cast<uint64_t>(f.usage.prompt_tokens);
  series.cached_tokens += static_cast<uint64_t>(f.usage.cached_tokens);
  series.completion_tokens += static_cast<uint64_t>(f.usage.completion_tokens);
  series.preemptions += static_cast<uint64_t>(f.receipt.preemptions);
  if (!f.first_token_ms) return;
  series.queue.observe(f.receipt.queue_ms / 1000);
  series.first_token.observe(*f.first_token_ms / 1000);
  if (f.usage.completion_tokens > 1)
    series.per_token.observe(f.receipt.decode_ms / 1000 / (f.usage.completion_tokens - 1));
}

std::map<Labels, Series> Telemetry::series() const {
  const std::lock_guard lock(mutex_);
  return series_;
}

std::vector<FinishedRequest> Telemetry::last() const {
  const std::lock_guard lock(mutex_);
  return {last_.begin(), last_.end()};
}

}  // namespace penstock::serve
