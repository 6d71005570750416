#include <string>

#include <gtest/gtest.h>

#include "base/error.h"
#include "pool/cache_plan.h"
#include "pool/memory_guard.h"

namespace penstock::pool {
namespace {

constexpr uint64_t kMegabyte = uint64_t{1} << 20, kGigabyte = uint64_t{1} << 30;

/// A machine with so much available, of a process that holds `resident`.
MemoryReading machine(uint64_t available, uint64_t resident) {
  MemoryReading reading;
  reading.machine = {32 * kGigabyte, available};
  reading.process.resident_bytes = resident;
  return reading;
}

std::shared_ptr<MemoryGuard> guard_of(const std::string& tier, const std::string& limit,
                                      std::function<MemoryReading()> read) {
  return std::make_shared<MemoryGuard>(GuardOptions{tier, limit, std::move(read)});
}
std::shared_ptr<MemoryGuard> guard_of(const std::string& tier, const std::string& limit = "") {
  return guard_of(tier, limit, [] { return machine(10 * kGigabyte, 0); });
}

template <class Call>
std::string refusal(const Call& call) {
  try {
    call();
  } catch (const base::Error& error) {
    EXPECT_EQ(error.code(), base::Code::kUnavailable) << error.what();
    return std::string(error.text());
  }
  ADD_FAILURE() << "expected a refusal";
  return "";
}

TEST(MemoryGuard, TiersAreSharesOfWhatIsAvailable) {
  EXPECT_EQ(guard_of("safe")->limit_bytes(), 5 * kGigabyte);
  EXPECT_EQ(guard_of("balanced")->limit_bytes(), uint64_t(0.7 * 10 * kGigabyte));
  EXPECT_EQ(guard_of("aggressive")->limit_bytes(), 9 * kGigabyte);
  EXPECT_EQ(guard_of("custom", "6GiB")->limit_bytes(), 6 * kGigabyte);
  EXPECT_EQ(guard_of("custom", "80%")->limit_bytes(), 8 * kGigabyte);
}

TEST(MemoryGuard, WhatTheProgramHoldsItselfCountsAsAvailable) {
  const auto guard = guard_of("safe", "", [] { return machine(9 * kGigabyte, kGigabyte); });
  EXPECT_EQ(guard->limit_bytes(), 5 * kGigabyte);
  EXPECT_EQ(guard->free_bytes(), 4 * kGigabyte - 64 * kMegabyte);
}

TEST(MemoryGuard, SomeOfTheMachineStaysFree) {
  EXPECT_EQ(guard_of("safe")->reserve_bytes(), kGigabyte);  // of 32
  const auto full = guard_of("safe", "", [] { return machine(800 * kMegabyte, 0); });
  EXPECT_EQ(full->reserve_bytes(), 100 * kMegabyte);
}

TEST(MemoryGuard, LimitsAreReadStrictly) {
  EXPECT_EQ(parse_memory_limit("512M", 0), 512 * kMegabyte);
  EXPECT_EQ(parse_memory_limit("1.5GB", 0), 1500000000u);
  EXPECT_EQ(parse_memory_limit("1000000", 0), 1000000u);
  for (const char* text : {"", "much", "0", "-1G", "120%", "5GX", "6 GiB", "nan", "inf", "1e300"})
    EXPECT_THROW(parse_memory_limit(text, 100), base::Error) << text;
  EXPECT_THROW(guard_of("custom"), base::Error);
  EXPECT_THROW(guard_of("safe", "6GiB"), base::Error);
  EXPECT_THROW(guard_of("brave"), base::Error);
}

TEST(MemoryGuard, ReservationsAreHeldUntilTheyEnd) {
  const auto guard = guard_of("custom", "1064MiB");
  const auto first = guard->reserve(600 * kMegabyte, "a");
  EXPECT_EQ(guard->free_bytes(), 400 * kMegabyte);
  const std::string text = refusal([&] { guard->reserve(500 * kMegabyte, "b"); });
  for (const char* part : {"500 MB for b", "400 MB free", "1064 MB", "600 MB of them planned"})
    EXPECT_NE(text.find(part), std::string::npos) << text;
  EXPECT_EQ(guard->planned_bytes(), 600 * kMegabyte);
  const_cast<MemoryGuard::Reservation&>(first).reset();
  EXPECT_EQ(guard->planned_bytes(), 0u);
  EXPECT_NO_THROW(guard->reserve(900 * kMegabyte, "b"));
}

TEST(MemoryGuard, OthersMayHaveTakenTheMemoryMeanwhile) {
  uint64_t available = 10 * kGigabyte, resident = 0;
  const auto guard = guard_of("aggressive", "", [&] { return machine(available, resident); });
  const auto held = guard->reserve(4 * kGigabyte, "a");
  available = 6 * kGigabyte;  // of which 4 are promised, and nothing of them is touched yet
  EXPECT_EQ(guard->free_bytes(), 2 * kGigabyte - 64 * kMegabyte);
  resident = 4 * kGigabyte + 64 * kMegabyte;
  EXPECT_EQ(guard->free_bytes(), 5 * kGigabyte - 64 * kMegabyte);  // the limit's
}

/// One KV group whose block of 64 positions takes a megabyte.
struct Needs {
  Needs() {
    plan.kv_groups.resize(1);
    memory.weight_bytes = 500 * kMegabyte;
    memory.scratch_bytes = 40 * kMegabyte;
    memory.slot_bytes = kMegabyte;
    memory.block_bytes = {kMegabyte};
    options.name = "tiny";
    options.max_seqs = 10;
  }
  CachePlan with(const MemoryGuard& guard) const {
    return plan_cache({plan, memory, caps, options, context}, guard);
  }

  models::Plan plan;
  exec::MemoryPlan memory;
  exec::Caps caps;
  LoadOptions options;
  int32_t context = 6400;  // 100 blocks
};

TEST(CachePlan, AsManyWholeContextsAsHalfOfTheRestHolds) {
  const Needs needs;
  // 64 of the program, 500 and 50 of the model: 1,386 are left, of which 693 hold six contexts.
  const CachePlan plan = needs.with(*guard_of("custom", "2000MiB"));
  EXPECT_EQ(plan.sequences, 6);
  EXPECT_EQ(plan.n_blocks, std::vector<int32_t>{600});
  EXPECT_EQ(plan.memory.weight_bytes, 500 * kMegabyte);
  EXPECT_EQ(plan.memory.buffer_bytes, 50 * kMegabyte);
  EXPECT_EQ(plan.memory.planned_bytes(), 1150 * kMegabyte);
  EXPECT_FALSE(plan.memory.on_device);
  EXPECT_EQ(needs.with(*guard_of("custom", "8GiB")).sequences, 10);  // no more than may run
}

TEST(CachePlan, OneContextMayTakeAllOfTheRest) {
  EXPECT_EQ(Needs().with(*guard_of("custom", "714MiB")).sequences, 1);
}

TEST(CachePlan, MM_02_WhatDoesNotFitIsRefusedWithNumbersAndWhatWould) {
  const Needs needs;
  const std::string text = refusal([&] { needs.with(*guard_of("custom", "664MiB")); });
  for (const char* part : {"650 MB for tiny", "weights 500 MB", "buffers of 10 sequences 50 MB",
                           "cache 100 MB for one sequence of 6400 tokens", "600 MB free of the 664 MB",
                           "memory_guard custom", "--context-length of 3200 would fit"})
    EXPECT_NE(text.find(part), std::string::npos) << part << " in " << text;
}

TEST(CachePlan, WhatItSaysWouldFitDoes) {
  Needs needs;
  needs.context = 3200;
  EXPECT_EQ(needs.with(*guard_of("custom", "664MiB")).sequences, 1);
}

TEST(CachePlan, FewerSequencesMayFit) {
  Needs needs;
  needs.memory.slot_bytes = 20 * kMegabyte;
  const auto guard = guard_of("custom", "764MiB");
  EXPECT_NE(refusal([&] { needs.with(*guard); }).find("--max-num-seqs 1 would fit"), std::string::npos);
  needs.options.max_seqs = 1;
  EXPECT_NO_THROW(needs.with(*guard));
}

TEST(CachePlan, NothingSmallerMayFit) {
  const std::string text = refusal([&] { Needs().with(*guard_of("custom", "500MiB")); });
  EXPECT_NE(text.find("nothing smaller fits, weights and buffers alone take 541 MB"), std::string::npos)
      << text;
}

TEST(CachePlan, ACacheThatWasAskedForMustFitToo) {
  Needs needs;
  needs.options.kv_memory_bytes = 300 * kMegabyte;
  EXPECT_EQ(needs.with(*guard_of("custom", "2000MiB")).sequences, 3);
  EXPECT_NE(refusal([&] { needs.with(*guard_of("custom", "700MiB")); }).find("--kv-memory-bytes"),
            std::string::npos);
  needs.options.kv_memory_bytes = 50 * kMegabyte;
  EXPECT_NE(refusal([&] { needs.with(*guard_of("safe")); }).find("--context-length of 3200 would fit"),
            std::string::npos);
}

TEST(CachePlan, OnADeviceAllOfTheRestLessAReserve) {
  Needs needs;
  needs.memory.device_free_bytes = 16 * kGigabyte;
  needs.memory.weight_bytes = 4 * kGigabyte;
  needs.memory.scratch_bytes = kGigabyte - 10 * kMegabyte;
  needs.options.max_seqs = 1000;
  needs.memory.slot_bytes = 0;
  const CachePlan plan = needs.with(*guard_of("balanced"));
  EXPECT_EQ(plan.sequences, static_cast<int32_t>((10 * kGigabyte + 10 * kMegabyte) / (100 * kMegabyte)));
  EXPECT_TRUE(plan.memory.on_device);
  EXPECT_LT(needs.with(*guard_of("safe")).sequences, plan.sequences);
  needs.memory.device_free_bytes = 4 * kGigabyte;
  EXPECT_NE(refusal([&] { needs.with(*guard_of("balanced")); }).find("of the device's 4096 MB"),
            std::string::npos);
}

TEST(ProcessMemory, ThisProcessHoldsSomething) {
  const MemoryReading now = read_memory();
  EXPECT_GT(now.machine.total_bytes, now.machine.available_bytes);
#ifdef __linux__
  EXPECT_GT(now.process.resident_bytes.value(), kMegabyte);
  EXPECT_GE(now.process.peak_resident_bytes.value(), now.process.resident_bytes.value());
  EXPECT_GT(now.process.allocated_bytes.value(), 0u);
#endif
}

}  // namespace
}  // namespace penstock::pool
