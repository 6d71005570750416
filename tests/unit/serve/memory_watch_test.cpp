#include "serve/memory_watch.h"

#include <chrono>
#include <thread>

#include <gtest/gtest.h>

#include "base/error.h"

namespace penstock::serve {
namespace {

constexpr uint64_t kMegabyte = uint64_t{1} << 20;
constexpr uint64_t kTotal = 3200 * kMegabyte;  // 100 MB of it are to stay free

pool::MemoryReading holding(uint64_t resident_mb, uint64_t available_mb = 2000) {
  pool::MemoryReading reading;
  reading.machine = {kTotal, available_mb * kMegabyte};
  reading.process.resident_bytes = resident_mb * kMegabyte;
  return reading;
}

/// A guard with a limit of 1,000 MB over numbers that the test sets.
struct World {
  std::atomic<uint64_t> resident_mb = 10, available_mb = 2000;
  std::shared_ptr<pool::MemoryGuard> guard = std::make_shared<pool::MemoryGuard>(
      pool::GuardOptions{"custom", "1000MiB", [this] { return holding(resident_mb, available_mb); }});
};

TEST(Pressure, ReliefComesBeforeRefusals) {
  const World world;
  const auto after = [&](Pressure was, uint64_t resident) {
    return pressure_after(was, holding(resident), *world.guard);
  };
  EXPECT_EQ(after(Pressure::kCalm, 900), Pressure::kCalm);
  EXPECT_EQ(after(Pressure::kCalm, 960), Pressure::kRelieving);
  EXPECT_EQ(after(Pressure::kCalm, 1100), Pressure::kRelieving);
  EXPECT_EQ(after(Pressure::kRelieving, 1100), Pressure::kRefusing);
  EXPECT_EQ(after(Pressure::kRelieving, 990), Pressure::kRelieving);
  EXPECT_EQ(after(Pressure::kRefusing, 990), Pressure::kRefusing);
  EXPECT_EQ(after(Pressure::kRefusing, 970), Pressure::kRelieving);
  EXPECT_EQ(after(Pressure::kRefusing, 500), Pressure::kCalm);
}

TEST(Pressure, WhatWasPlannedForIsNoPressure) {
  const World world;
  const auto model = world.guard->reserve(920 * kMegabyte, "a model");
  EXPECT_EQ(pressure_after(Pressure::kCalm, holding(980), *world.guard), Pressure::kCalm);
  EXPECT_EQ(pressure_after(Pressure::kRefusing, holding(980), *world.guard), Pressure::kCalm);
  EXPECT_EQ(pressure_after(Pressure::kCalm, holding(990), *world.guard), Pressure::kRelieving);
  EXPECT_EQ(pressure_after(Pressure::kRelieving, holding(1001), *world.guard), Pressure::kRefusing);
}

TEST(Pressure, TheMachineOrTheGroupMayRunShortFirst) {
  const World world;
  const auto after = [&](Pressure was, uint64_t available) {
    return pressure_after(was, holding(10, available), *world.guard);
  };
  EXPECT_EQ(after(Pressure::kCalm, 149), Pressure::kRelieving);
  EXPECT_EQ(after(Pressure::kRelieving, 99), Pressure::kRefusing);
  EXPECT_EQ(after(Pressure::kRefusing, 110), Pressure::kRefusing);
  EXPECT_EQ(after(Pressure::kRefusing, 130), Pressure::kRelieving);
  EXPECT_EQ(after(Pressure::kRelieving, 200), Pressure::kCalm);
}

template <class Condition>
bool eventually(const Condition& condition) {
  for (int i = 0; i < 1000; ++i) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

TEST(MemoryWatch, MM_09_RefusesWithNumbersAndRecoversByItself) {
  World world;
  std::atomic<int> forgotten = 0, idle = 1;
  MemoryWatch watch(world.guard, {[&] { ++forgotten; }, [&] { return idle-- > 0; }});
  EXPECT_NO_THROW(watch.require_room());
  world.resident_mb = 1200;
  ASSERT_TRUE(eventually([&] { return watch.pressure() == Pressure::kRefusing; }));
  EXPECT_GE(forgotten, 1);
  try {
    watch.require_room();
    FAIL() << "expected a refusal";
  } catch (const base::Error& error) {
    EXPECT_EQ(error.code(), base::Code::kUnavailable);
    for (const char* part : {"1000 MB", "1200 MB", "custom"})
      EXPECT_NE(error.text().find(part), std::string_view::npos) << error.text();
  }
  world.resident_mb = 400;
  ASSERT_TRUE(eventually([&] { return watch.pressure() == Pressure::kCalm; }));
  EXPECT_NO_THROW(watch.require_room());
  EXPECT_EQ(watch.counters().refused, 1u);
  EXPECT_EQ(watch.counters().unloads, 1u);
  EXPECT_EQ(watch.counters().evictions, static_cast<uint64_t>(forgotten));
}

TEST(MemoryWatch, WithoutAGuardNothingIsWatched) {
  MemoryWatch watch(nullptr, {});
  EXPECT_NO_THROW(watch.require_room());
}

}  // namespace
}  // namespace penstock::serve
