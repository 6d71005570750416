// /metrics in Prometheus' text format, and the counters that only the surfaces know. Names begin with
// penstock_ and stay stable.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>

#include "api/surface.h"
#include "serve/service.h"

namespace penstock::api {

/// Thread-safe; one per server.
struct Meters {
  Ignored ignored;
  std::array<std::atomic<uint64_t>, 6> responses_by_class = {};  // [status / 100]
  const std::chrono::steady_clock::time_point started = std::chrono::steady_clock::now();

  double uptime_seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
  }

  void count_response(int status) {
    const int status_class = status / 100;
    if (status_class > 0 && status_class < 6) ++responses_by_class[static_cast<size_t>(status_class)];
  }
};

std::string render_metrics(const serve::Service& service, const Meters& meters);

}  // namespace penstock::api
