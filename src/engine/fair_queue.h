// Who starts next: classes by urgency, within a class tenants in turn by the work they were given, a tenant's
// own jobs in order of arrival. Waiting makes a job more urgent, so nobody waits for ever. Deterministic:
// time is passed in. One thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <vector>

#include "engine/generator.h"

namespace penstock::engine {

/// A job waits as one of the next more urgent class after this long, and so on.
inline constexpr std::chrono::seconds kAging{15};

struct WaitingJob {
  uint64_t id = 0;  // by arrival
  Priority priority = Priority::kRealtime;
  uint64_t tenant = 0;
  int64_t cost = 0;  // tokens to compute and to draw at most: what its tenant is charged
  std::chrono::steady_clock::time_point arrived;
};

/// The class of a job that has waited until `now`.
Priority aged(const WaitingJob& job, std::chrono::steady_clock::time_point now);

class FairQueue {
 public:
  using Time = std::chrono::steady_clock::time_point;

  void push(const WaitingJob& job);
  /// One that had started: ahead of its tenant's others, and not charged again.
  void push_back_again(const WaitingJob& job);

  /// The next `n` in order, each as if those before it had started.
  std::vector<WaitingJob> first(size_t n, Time now) const;
  /// Takes the job out; `started`: its tenant is charged.
  void remove(uint64_t id, bool started);

  bool empty() const { return size_ == 0; }
  size_t size() const { return size_; }

 private:
  struct Place {
    WaitingJob job;
    bool again = false;
  };
  struct Tenant {
    int64_t served = 0;  // virtual time: tokens charged, never behind those who were served meanwhile
    std::map<Priority, std::deque<Place>> lines;
  };

  Tenant& tenant_of(const WaitingJob& job);

  std::map<uint64_t, Tenant> tenants_;  // those with waiting jobs, or charged beyond now_served_
  int64_t now_served_ = 0;
  size_t size_ = 0;
};

}  // namespace penstock::engine
