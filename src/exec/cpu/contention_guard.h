// Decides when a step is better run by the calling thread alone: another program keeps a core, and every
// barrier waits for the thread that lost it. Results do not depend on the answer. Engine thread only.
#pragma once

#include <algorithm>
#include <cstdint>

namespace penstock::exec::cpu {

class ContentionGuard {
 public:
  /// Whether the next step should use the calling thread only.
  bool alone() const { return steps_alone_ > 0; }

  /// Tells how long a step took and how much of that the calling thread waited for others. Alone it would
  /// have done all the work in about twice its own share, so waiting for more than half is a loss.
  void finished(double step_seconds, double waited_seconds) {
    if (alone()) {
      --steps_alone_;
      return;
    }
    const bool lost = waited_seconds > 0.5 * step_seconds;
    patience_ = lost ? std::min(2 * patience_, kMostSteps) : kFewestSteps;
    if (lost) steps_alone_ = patience_;
  }

 private:
  static constexpr int32_t kFewestSteps = 4, kMostSteps = 64;

  int32_t steps_alone_ = 0;
  int32_t patience_ = kFewestSteps;
};

}  // namespace penstock::exec::cpu
