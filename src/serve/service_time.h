// How long requests have taken of late, and what that means for one that is refused now. Thread-safe.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <mutex>

namespace penstock::serve {

/// A mean of the last few dozen requests, without the time that they waited.
class ServiceTime {
 public:
  void add(double ms) {
    constexpr double kShareOfNewest = 0.1;
    const std::lock_guard lock(mutex_);
    mean_ms_ = mean_ms_ < 0 ? ms : mean_ms_ + kShareOfNewest * (ms - mean_ms_);
  }

  /// 0 before the first request has finished.
  double mean_ms() const {
    const std::lock_guard lock(mutex_);
    return std::max(mean_ms_, 0.0);
  }

 private:
  mutable std::mutex mutex_;
  double mean_ms_ = -1;
};

/// Seconds, 1 to 60, until one more request would have found its turn: those that wait, and itself, take the
/// places of those that run, each for `mean_ms`.
inline int retry_after_seconds(uint64_t waiting, uint64_t running, double mean_ms) {
  const double places = static_cast<double>(std::max<uint64_t>(running, 1));
  const double seconds = static_cast<double>(waiting + 1) * mean_ms / 1000 / places;
  return static_cast<int>(std::clamp(std::ceil(seconds), 1.0, 60.0));
}

}  // namespace penstock::serve
