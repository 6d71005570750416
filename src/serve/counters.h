// What serve has done since it started. A request is counted once where it begins and once where it ends:
// received = running + finished + cancelled + failed + refused.
#pragma once

#include <cstdint>
#include <mutex>

namespace penstock::serve {

struct Counters {
  uint64_t received = 0;
  uint64_t running = 0;
  uint64_t finished = 0;
  uint64_t cancelled = 0;
  uint64_t cancelled_via_disconnect = 0;  // a part of cancelled
  uint64_t failed = 0;
  uint64_t refused = 0;  // before it started: bad, too long, overloaded
  uint64_t prompt_tokens = 0;
  uint64_t completion_tokens = 0;
};

/// Thread-safe owner of the counters.
class Tally {
 public:
  enum class End { kFinished, kCancelled, kDisconnected, kFailed, kRefused };

  void begin() {
    const std::lock_guard lock(mutex_);
    ++values_.received;
    ++values_.running;
  }

  void end(End how) {
    const std::lock_guard lock(mutex_);
    --values_.running;
    switch (how) {
      case End::kFinished:
        ++values_.finished;
        break;
      case End::kDisconnected:
        ++values_.cancelled_via_disconnect;
        [[fallthrough]];
      case End::kCancelled:
        ++values_.cancelled;
        break;
      case End::kFailed:
        ++values_.failed;
        break;
      case End::kRefused:
        ++values_.refused;
        break;
    }
  }

  void add_tokens(uint64_t prompt, uint64_t completion) {
    const std::lock_guard lock(mutex_);
    values_.prompt_tokens += prompt;
    values_.completion_tokens += completion;
  }

  Counters values() const {
    const std::lock_guard lock(mutex_);
    return values_;
  }

 private:
  mutable std::mutex mutex_;
  Counters values_;
};

}  // namespace penstock::serve
