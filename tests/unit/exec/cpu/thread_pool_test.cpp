#include "exec/cpu/thread_pool.h"

#include <array>
#include <atomic>
#include <chrono>
#include <ctime>
#include <stdexcept>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "exec/cpu/contention_guard.h"
#include "exec/cpu/processor.h"

namespace penstock::exec::cpu {
namespace {

TEST(ThreadPool, EveryThreadRunsEveryJob) {
  for (const int32_t n : {1, 2, 3, 7}) {
    ThreadPool pool(n);
    std::vector<int> calls(static_cast<size_t>(n));
    for (int job = 0; job < 500; ++job)
      pool.run([&](int32_t thread) { ++calls[static_cast<size_t>(thread)]; });
    for (const int count : calls) EXPECT_EQ(count, 500);
  }
}

TEST(ThreadPool, BarrierSeparatesPhases) {
  ThreadPool pool(3);
  std::vector<int> value(3), seen(3);
  pool.run([&](int32_t thread) {
    const auto own = static_cast<size_t>(thread);
    for (int phase = 1; phase <= 200; ++phase) {
      value[own] = phase;
      pool.barrier(thread);
      for (const int v : value) seen[own] += v == phase;
      pool.barrier(thread);
    }
  });
  for (const int count : seen) EXPECT_EQ(count, 600);
}

TEST(ThreadPool, AnErrorReachesTheCallerAndThePoolLivesOn) {
  ThreadPool pool(3);
  EXPECT_THROW(pool.run([](int32_t thread) {
    if (thread == 2) throw std::runtime_error("no");
  }),
               std::runtime_error);
  int calls = 0;
  pool.run([&](int32_t thread) {
    if (thread == 0) ++calls;
  });
  EXPECT_EQ(calls, 1);
}

TEST(ThreadPool, SleepsWithoutWorkAndWakesAgain) {
  ThreadPool pool(3);
  pool.run([](int32_t) {});
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  const std::clock_t before = std::clock();
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  EXPECT_LT(std::clock() - before, CLOCKS_PER_SEC / 10) << "an idle thread spins";
  std::atomic<int> calls{0};
  pool.run([&](int32_t) { ++calls; });
  EXPECT_EQ(calls.load(), 3);
}

TEST(ThreadPool, AloneTheCallerDoesTheWholeJob) {
  ThreadPool pool(3);
  for (const bool alone : {true, false, true}) {
    pool.set_alone(alone);
    std::atomic<int> calls{0};
    pool.run([&](int32_t thread) {
      pool.barrier(thread);
      ++calls;
    });
    EXPECT_EQ(calls.load(), alone ? 1 : 3);
    EXPECT_EQ(pool.active(), alone ? 1 : 3);
  }
}

TEST(ThreadPool, CountsTheTimeThatTheCallerWaits) {
  ThreadPool pool(2);
  pool.run([&](int32_t thread) {
    if (thread == 1) std::this_thread::sleep_for(std::chrono::milliseconds(30));
    pool.barrier(thread);
  });
  EXPECT_GT(pool.waited_seconds(), 0.01);
}

TEST(ContentionGuard, RunsAloneWhileWaitingIsALossAndTriesAgain) {
  ContentionGuard guard;
  guard.finished(1.0, 0.4);
  EXPECT_FALSE(guard.alone());
  int32_t before = 0;
  for (int round = 0; round < 6; ++round) {
    guard.finished(1.0, 0.6);
    int32_t alone = 0;
    for (; guard.alone(); ++alone) guard.finished(1.0, 0);
    EXPECT_GE(alone, before);
    before = alone;
  }
  EXPECT_EQ(before, 64);
  guard.finished(1.0, 0.1);
  EXPECT_FALSE(guard.alone());
  guard.finished(1.0, 0.6);
  int32_t alone = 0;
  for (; guard.alone(); ++alone) guard.finished(1.0, 0);
  EXPECT_LT(alone, 64);
}

TEST(ThreadPool, EveryPieceIsTakenOnceBetweenBarriers) {
  for (const int32_t threads : {1, 3}) {
    ThreadPool pool(threads);
    std::array<std::array<std::atomic<int32_t>, 50>, 4> taken{};
    pool.run([&](int32_t thread) {
      for (auto& round : taken) {
        for (int32_t i; (i = pool.take(thread, 50)) >= 0;) ++round[static_cast<size_t>(i)];
        pool.barrier(thread);
      }
    });
    for (const auto& round : taken)
      for (const auto& times : round) EXPECT_EQ(times.load(), 1);
  }
}

/// With plain values, so that ThreadSanitizer sees a barrier that orders too little.
TEST(ThreadPool, WhatWasDoneToAPieceIsSeenBehindTheBarrier) {
  ThreadPool pool(3);
  std::vector<int32_t> value(40);
  for (int job = 0; job < 50; ++job) {
    pool.set_alone(job % 5 == 4);
    pool.run([&](int32_t thread) {
      for (int round = 0; round < 4; ++round) {
        for (int32_t i; (i = pool.take(thread, 40)) >= 0;) {
          ++value[static_cast<size_t>(i)];
          if (thread == round % 3) std::this_thread::yield();  // late: others take from its share
        }
        if (round < 3) pool.barrier(thread);
      }
    });
  }
  for (const int32_t times : value) EXPECT_EQ(times, 200);
}

TEST(ThreadPool, DenormalsAreZeroInsideOnly) {
  ThreadPool pool(2);
  std::vector<float> product(2, 1.0f);
  const volatile float tiny = 1e-30f;
  pool.run([&](int32_t thread) { product[static_cast<size_t>(thread)] = tiny * 1e-10f; });
  EXPECT_EQ(product[0], 0.0f);
  EXPECT_EQ(product[1], 0.0f);
  EXPECT_NE(tiny * 1e-10f, 0.0f);
}

TEST(Processor, OffersAtLeastOneCoreAndTheScalarKernels) {
  EXPECT_GE(usable_cores(), 1);
  EXPECT_STREQ(choose_kernels(Isa::kScalar).name, "scalar");
  const std::vector<const Kernels*> tables = available_kernels();
  EXPECT_EQ(tables.back(), &choose_kernels(Isa::kScalar));
  EXPECT_EQ(tables.front(), &choose_kernels(Isa::kBest));
}

TEST(Processor, RefusesKernelsOfAnotherProcessor) {
  const bool arm64 = neon_kernels() != nullptr;
  try {
    choose_kernels(arm64 ? Isa::kAvx2 : Isa::kNeonDotprod);
    FAIL();
  } catch (const base::Error& error) {
    EXPECT_EQ(error.code(), base::Code::kUnsupported);
    EXPECT_THAT(error.what(), testing::HasSubstr(arm64 ? "AVX2" : "NEON and its dot product"));
  }
}

}  // namespace
}  // namespace penstock::exec::cpu
