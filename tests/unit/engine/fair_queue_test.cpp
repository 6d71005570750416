#include "engine/fair_queue.h"

#include <map>
#include <random>

#include <gtest/gtest.h>

namespace penstock::engine {
namespace {

using std::chrono::seconds;
const FairQueue::Time kStart{seconds(1000)};

WaitingJob job(uint64_t id, Priority priority, uint64_t tenant, int64_t cost = 10) {
  return {id, priority, tenant, cost, kStart};
}

/// Ids in the order in which they start.
std::vector<uint64_t> drain(FairQueue& queue, FairQueue::Time now = kStart) {
  std::vector<uint64_t> order;
  while (!queue.empty()) {
    order.push_back(queue.first(1, now).front().id);
    queue.remove(order.back(), true);
  }
  return order;
}

TEST(FairQueue, MoreUrgentFirstThenByArrival) {
  FairQueue queue;
  queue.push(job(1, Priority::kBackground, 0));
  queue.push(job(2, Priority::kBatch, 0));
  queue.push(job(3, Priority::kRealtime, 0));
  queue.push(job(4, Priority::kBatch, 0));
  queue.push(job(5, Priority::kRealtime, 0));
  EXPECT_EQ(drain(queue), (std::vector<uint64_t>{3, 5, 2, 4, 1}));
}

TEST(FairQueue, TenantsTakeTurnsByTheirWork) {
  FairQueue queue;
  for (uint64_t id = 1; id <= 6; ++id) queue.push(job(id, Priority::kRealtime, 7, 10));
  queue.push(job(8, Priority::kRealtime, 9, 30));
  queue.push(job(9, Priority::kRealtime, 9, 10));
  EXPECT_EQ(drain(queue), (std::vector<uint64_t>{1, 8, 2, 3, 4, 9, 5, 6}));
}

TEST(FairQueue, WhoComesBackHasSavedNothingUp) {
  FairQueue queue;
  queue.push(job(1, Priority::kRealtime, 1, 10));
  drain(queue);
  for (uint64_t id = 2; id <= 21; ++id) {
    queue.push(job(id, Priority::kRealtime, 2, 10));
    drain(queue);
  }
  for (uint64_t id = 30; id < 34; ++id) queue.push(job(id, Priority::kRealtime, 1, 10));
  for (uint64_t id = 40; id < 44; ++id) queue.push(job(id, Priority::kRealtime, 2, 10));
  const std::vector<uint64_t> order = drain(queue);
  EXPECT_LE(std::count_if(order.begin(), order.begin() + 4, [](uint64_t id) { return id < 40; }), 3);
}

TEST(FairQueue, WaitingMakesUrgent) {
  FairQueue queue;
  queue.push(job(1, Priority::kBackground, 0));
  WaitingJob late = job(2, Priority::kRealtime, 0);
  late.arrived = kStart + 2 * kAging;
  queue.push(late);
  EXPECT_EQ(queue.first(1, kStart + kAging).front().id, 2u);
  EXPECT_EQ(queue.first(1, kStart + 2 * kAging).front().id, 1u);
  EXPECT_EQ(aged(job(1, Priority::kBackground, 0), kStart + kAging), Priority::kBatch);
}

TEST(FairQueue, OneThatHadStartedGoesAheadAndIsNotChargedAgain) {
  FairQueue queue;
  queue.push(job(1, Priority::kRealtime, 5, 100));
  queue.push(job(2, Priority::kRealtime, 6, 100));
  queue.push_back_again(job(0, Priority::kRealtime, 5, 1000));
  EXPECT_EQ(drain(queue), (std::vector<uint64_t>{0, 1, 2}));
}

TEST(FairQueue, TheFirstOnesAreInTheOrderInWhichTheyWouldStart) {
  std::mt19937 rng(3);
  const auto integer = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(rng); };
  for (int round = 0; round < 200; ++round) {
    FairQueue queue;
    const auto n = static_cast<uint64_t>(integer(1, 30));
    for (uint64_t id = 0; id < n; ++id) {
      WaitingJob j = job(id, static_cast<Priority>(integer(0, 2)), static_cast<uint64_t>(integer(0, 4)),
                         integer(1, 500));
      j.arrived += seconds(integer(0, 60));
      integer(0, 4) == 0 ? queue.push_back_again(j) : queue.push(j);
    }
    EXPECT_EQ(queue.size(), n);
    const auto now = kStart + seconds(60);
    std::vector<uint64_t> foretold;
    for (const WaitingJob& j : queue.first(n + 5, now)) foretold.push_back(j.id);
    EXPECT_EQ(foretold, drain(queue, now));
  }
}

/// Two tenants that always have work get the same share, whatever the size of their jobs.
TEST(FairQueue, SharesAreEqualInTheLongRun) {
  std::mt19937 rng(4);
  FairQueue queue;
  uint64_t id = 0;
  std::map<uint64_t, int64_t> given;
  const auto add = [&](uint64_t tenant) {
    const int64_t cost = tenant == 1 ? std::uniform_int_distribution<int64_t>(1, 10)(rng) : 400;
    queue.push(job(id++, Priority::kRealtime, tenant, cost));
  };
  for (int i = 0; i < 5; ++i) add(1), add(2);
  for (int i = 0; i < 20000; ++i) {
    const WaitingJob next = queue.first(1, kStart).front();
    queue.remove(next.id, true);
    given[next.tenant] += next.cost;
    add(next.tenant);
    if (given[1] + given[2] > 4000) {
      EXPECT_LE(std::abs(given[1] - given[2]), 410) << i;
    }
  }
}

}  // namespace
}  // namespace penstock::engine
