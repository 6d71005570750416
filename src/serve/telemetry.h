// What was measured of the requests that ended: histograms by model, surface and outcome, and the last
// receipts. Thread-safe; bounded; knows no text of any request.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "chat/event.h"
#include "chat/request.h"

namespace penstock::serve {

/// Counts of observations by upper bounds, in seconds; the last count is of those above all bounds.
struct Histogram {
  static constexpr std::array<double, 20> kBounds = {0.001, 0.0025, 0.005, 0.01, 0.02, 0.035, 0.05,
                                                     0.075, 0.1,    0.15,  0.25, 0.5,  1,     2.5,
                                                     5,     10,     30,    60,   120,  600};
  std::array<uint64_t, kBounds.size() + 1> counts = {};
  double sum = 0;
  uint64_t count = 0;

  void observe(double seconds, uint64_t times = 1);
  void add(const Histogram& other);
};

enum class Outcome : uint8_t { kStop, kLength, kCancelled, kDisconnected, kExpired, kFailed, kRefused };

/// "stop", "length", "cancelled", ...
std::string_view name(Outcome outcome);

/// One request at its end. Times that did not come to be are absent.
struct FinishedRequest {
  std::string id, model;
  chat::Origin origin;
  Outcome outcome = Outcome::kRefused;
  std::string_view error;  // the code's name, for those without an answer
  chat::Usage usage;
  chat::Receipt receipt;
  std::optional<double> first_token_ms;
  double total_ms = 0;
  int64_t ended_ms = 0;  // unix
};

/// Its numbers and names, for logs and status.
base::Json finished_json(const FinishedRequest& finished);

struct Labels {
  std::string model, surface;
  Outcome outcome = Outcome::kStop;
  auto operator<=>(const Labels&) const = default;
};

/// Of the requests with the same labels.
struct Series {
  Histogram queue, first_token, inter_token, per_token, whole;
  uint64_t prompt_tokens = 0, cached_tokens = 0, completion_tokens = 0, preemptions = 0;
};

class Telemetry {
 public:
  /// `gaps` are the times between tokens of the request. Also writes the line of the log.
  void end(FinishedRequest finished, const Histogram& gaps);

  std::map<Labels, Series> series() const;

  /// The newest first, at most kReceipts.
  std::vector<FinishedRequest> last() const;

  static constexpr size_t kReceipts = 64, kModels = 64;

 private:
  void count_locked(const FinishedRequest& finished, const Histogram& gaps);

  mutable std::mutex mutex_;
  std::map<Labels, Series> series_;
  std::map<std::string, int> models_;  // that have a label of their own; all others share one
  std::deque<FinishedRequest> last_;
};

}  // namespace penstock::serve
