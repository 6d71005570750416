#include <atomic>
#include <thread>

#include "base/error.h"
#include "unit/engine/engine_fixture.h"

namespace penstock::engine {
namespace {

using testing::Collector;
using testing::FakeOptions;
using testing::Gate;
using testing::RandomJobs;
using testing::Result;

class EngineCancelTest : public ::testing::TestWithParam<int32_t> {};
INSTANTIATE_TEST_SUITE_P(Depths, EngineCancelTest, ::testing::Values(0, 1, 2, 3));

TEST_P(EngineCancelTest, AQueuedJobThatIsCancelledNeverRuns) {
  Gate gate;
  FakeOptions fake;
  fake.explode_token = 95;  // running it would be noticed
  fake.on_step = [&](int32_t) { gate.pass(); };
  EngineOptions options = testing::engine_options(fake);
  options.max_seqs = 1;
  const auto engine = testing::make_engine(GetParam(), fake, options);
  const Job job{.prompt = {1, 2, 3}, .max_tokens = 5, .biases = {{95, -100}}};
  const auto first = std::make_shared<Collector>(), queued = std::make_shared<Collector>(),
             last = std::make_shared<Collector>();
  engine->submit(job, first);
  gate.wait_reached();
  engine->cancel(engine->submit({.prompt = {95}, .max_tokens = 5}, queued));
  engine->submit(job, last);
  gate.open();
  EXPECT_EQ(queued->receipt().finish, Finish::kCancelled);
  EXPECT_TRUE(queued->ids().empty());
  testing::expect_same(Result(*first), testing::solo(job));
  testing::expect_same(Result(*last), testing::solo(job));
  const Counters c = testing::settled(*engine);
  EXPECT_EQ(c.cancelled, 1u);
  EXPECT_EQ(c.failed, 0u);
  EXPECT_EQ(c.prompt_tokens, 4u) << "three, and the last of those that the third job found";
}

TEST_P(EngineCancelTest, CancelEndsARunningJobOnce) {
  const auto engine = testing::make_engine(GetParam());
  const auto sink = std::make_shared<Collector>();
  const uint64_t id = engine->submit({.prompt = {1}, .max_tokens = 4000}, sink);
  sink->wait_for_tokens(3);
  for (int i = 0; i < 3; ++i) engine->cancel(id);
  engine->cancel(12345);
  EXPECT_EQ(sink->receipt().finish, Finish::kCancelled);
  const Job job{.prompt = {9, 8, 7}, .max_tokens = 9};  // right behind it, with nothing left over
  const auto next = std::make_shared<Collector>();
  engine->submit(job, next);
  testing::expect_same(Result(*next), testing::solo(job));
  const Counters c = testing::settled(*engine);
  EXPECT_EQ(c.cancelled, 1u);
  EXPECT_EQ(c.finished, 1u);
}

/// A quarter of 10,000 for each depth.
TEST_P(EngineCancelTest, RandomCancelsLeaveNothingBehind) {
  FakeOptions fake;
  fake.n_blocks = {64, 40};
  EngineOptions options = testing::engine_options(fake);
  options.max_queue = 16;
  const auto engine = testing::make_engine(GetParam(), fake, options);
  RandomJobs random(31 + static_cast<uint64_t>(GetParam()));
  std::vector<Job> kinds;
  std::vector<Result> expected;
  for (int i = 0; i < 20; ++i) {
    kinds.push_back(random.job(i % 4 == 0 ? 200 : 20, 12));
    expected.push_back(testing::solo(kinds.back()));
  }
  struct Sent {
    uint64_t id;
    size_t kind;
    std::shared_ptr<Collector> sink;
  };
  std::vector<Sent> sent;
  std::vector<uint64_t> cancelled_at_random;
  while (cancelled_at_random.size() < 2500) {
    const auto kind = static_cast<size_t>(random.integer(0, 19));
    auto sink = std::make_shared<Collector>();
    try {
      sent.push_back({engine->submit(kinds[kind], sink), kind, sink});
    } catch (const base::Error& e) {
      ASSERT_EQ(e.code(), base::Code::kOverloaded);
      sent[sent.size() - static_cast<size_t>(random.integer(1, 8))].sink->receipt();
    }
    if (random.integer(0, 1) == 0) continue;
    const auto back = static_cast<size_t>(random.integer(1, 12));
    if (back > sent.size()) continue;
    cancelled_at_random.push_back(sent[sent.size() - back].id);
    engine->cancel(cancelled_at_random.back());
  }
  uint64_t cancelled = 0, finished = 0;
  for (const Sent& s : sent) {
    const Result got(*s.sink);
    if (got.receipt.finish == Finish::kCancelled) {
      ++cancelled;
      ASSERT_LE(got.ids.size(), expected[s.kind].ids.size());
      EXPECT_TRUE(std::equal(got.ids.begin(), got.ids.end(), expected[s.kind].ids.begin()));
    } else {
      ++finished;
      testing::expect_same(got, expected[s.kind]);
    }
  }
  EXPECT_GT(cancelled, 100u);
  EXPECT_GT(finished, 100u);
  const Counters c = testing::settled(*engine);
  EXPECT_EQ(c.cancelled, cancelled);
  EXPECT_EQ(c.finished, finished);
  EXPECT_EQ(c.failed, 0u);
  EXPECT_EQ(c.submitted, cancelled + finished);
}

TEST_P(EngineCancelTest, StopCancelsWhatRunsAndWhatWaits) {
  const auto engine = testing::make_engine(GetParam());
  std::vector<std::shared_ptr<Collector>> sinks;
  for (int i = 0; i < 20; ++i) {
    sinks.push_back(std::make_shared<Collector>());
    engine->submit({.prompt = {1, 2}, .max_tokens = 4000}, sinks.back());
  }
  sinks[0]->wait_for_tokens(5);
  engine->stop();
  for (const auto& sink : sinks) EXPECT_EQ(sink->receipt().finish, Finish::kCancelled);
  EXPECT_EQ(engine->counters().cancelled, 20u);
  EXPECT_EQ(engine->counters().running + engine->counters().waiting + engine->counters().blocks_used, 0u);
  EXPECT_THROW(engine->submit({.prompt = {1}, .max_tokens = 1}, sinks[0]), base::Error);
  engine->stop();
}

TEST_P(EngineCancelTest, ManyThreadsMaySubmitAndCancel) {
  const auto engine = testing::make_engine(GetParam());
  std::vector<std::thread> threads;
  std::atomic<int> ends = 0;
  for (uint64_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      RandomJobs random(t);
      for (int i = 0; i < 40; ++i) {
        const auto sink = std::make_shared<Collector>();
        const uint64_t id = engine->submit(random.job(80, 20), sink);
        if (random.integer(0, 1) == 0) engine->cancel(id);
        const Counters c = engine->counters();
        EXPECT_LE(c.running + c.waiting, 4u);
        sink->receipt();
        ++ends;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(ends, 160);
  EXPECT_EQ(testing::settled(*engine).submitted, 160u);
}

}  // namespace
}  // namespace penstock::engine
