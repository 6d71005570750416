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

constexpr int32_t kBadToken = 95;

class EngineFaultsTest : public ::testing::TestWithParam<int32_t> {};
INSTANTIATE_TEST_SUITE_P(Depths, EngineFaultsTest, ::testing::Values(0, 1, 2, 3));

TEST_P(EngineFaultsTest, BC_15_ARowWithoutFiniteLogitsFailsAlone) {
  FakeOptions fake;
  fake.nan_token = kBadToken;
  const auto engine = testing::make_engine(GetParam(), fake);
  RandomJobs random(21);
  std::vector<Job> jobs;
  std::vector<std::shared_ptr<Collector>> sinks;
  for (int i = 0; i < 16; ++i) {
    jobs.push_back(random.job(100, 30));
    jobs.back().biases.push_back({kBadToken, -100});  // not drawn by chance
    if (i % 4 == 1) jobs.back().prompt.back() = kBadToken;
    if (i % 4 == 2) {  // drawn soon, while the next step may be in flight
      jobs.back().biases.back().value = 4;
      jobs.back().max_tokens = 400;
      jobs.back().params.temperature = 1.5f;
      jobs.back().params.top_p = 1;
      jobs.back().stop_ids.clear();
    }
    sinks.push_back(std::make_shared<Collector>());
    engine->submit(jobs.back(), sinks.back());
  }
  for (size_t i = 0; i < jobs.size(); ++i) {
    const Result got(*sinks[i]);
    if (i % 4 == 1 || i % 4 == 2) {
      EXPECT_EQ(got.receipt.finish, Finish::kFailed) << i;
      EXPECT_NE(got.receipt.error.find("finite"), std::string::npos) << got.receipt.error;
    } else {
      testing::expect_same(got, testing::solo(jobs[i]));
    }
  }
  const Counters c = testing::settled(*engine);
  EXPECT_EQ(c.failed, 8u);
  EXPECT_EQ(c.finished, 8u);
}

TEST_P(EngineFaultsTest, AThrowFailsTheSequencesOfItsStepOnly) {
  Gate gate;
  FakeOptions fake;
  fake.explode_token = kBadToken;
  fake.max_slots = 3;
  fake.on_step = [&](int32_t) { gate.pass(); };
  const auto engine = testing::make_engine(GetParam(), fake);
  RandomJobs random(22);
  std::vector<Job> jobs;
  std::vector<std::shared_ptr<Collector>> sinks;
  for (int i = 0; i < 40; ++i) {
    jobs.push_back(random.job(100, 30));
    jobs.back().biases.push_back({kBadToken, -100});
    if (i % 10 == 4) jobs.back().prompt.back() = kBadToken;
    sinks.push_back(std::make_shared<Collector>());
    engine->submit(jobs.back(), sinks.back());
  }
  gate.open();
  size_t failed = 0;
  for (size_t i = 0; i < jobs.size(); ++i) {
    const Result got(*sinks[i]);
    if (got.receipt.finish == Finish::kFailed) {
      ++failed;
      EXPECT_NE(got.receipt.error.find("exploded"), std::string::npos) << got.receipt.error;
    } else {
      EXPECT_NE(i % 10, 4u);
      testing::expect_same(got, testing::solo(jobs[i]));
    }
  }
  EXPECT_GE(failed, 4u);
  EXPECT_LE(failed, 12u);  // at most the three sequences of each of four steps
  const Counters c = testing::settled(*engine);
  EXPECT_EQ(c.failed, failed);
  EXPECT_EQ(c.finished, 40 - failed);
}

TEST_P(EngineFaultsTest, ALostDeviceEndsEverythingWithTheReason) {
  Gate gate;
  FakeOptions fake;
  fake.lost_token = kBadToken;
  fake.max_slots = 3;
  fake.on_step = [&](int32_t) { gate.pass(); };
  std::atomic<int> lost = 0;
  EngineOptions options = testing::engine_options(fake);
  options.on_lost = [&lost] { ++lost; };
  const auto engine = testing::make_engine(GetParam(), fake, options);
  RandomJobs random(23);
  std::vector<std::shared_ptr<Collector>> sinks;
  for (int i = 0; i < 12; ++i) {
    Job job = random.job(100, 30);
    job.biases = {{kBadToken, -100}};
    job.max_tokens = 30;  // so that none ends before the device is lost
    job.stop_ids.clear();
    if (i == 1) job.prompt.back() = kBadToken;
    sinks.push_back(std::make_shared<Collector>());
    engine->submit(job, sinks.back());
  }
  gate.open();
  for (size_t i = 0; i < sinks.size(); ++i) {
    const Receipt receipt = sinks[i]->receipt();
    EXPECT_EQ(receipt.finish, Finish::kFailed) << i;
    EXPECT_NE(receipt.error.find("lost"), std::string::npos) << receipt.error;
  }
  const Counters c = testing::settled(*engine);
  EXPECT_EQ(c.failed, 12u);
  try {
    engine->submit({.prompt = {1}, .max_tokens = 1}, std::make_shared<Collector>());
    ADD_FAILURE() << "a job was taken";
  } catch (const base::Error& error) {
    EXPECT_EQ(error.code(), base::Code::kUnavailable);
    EXPECT_NE(std::string(error.what()).find("lost"), std::string::npos);
  }
  engine->stop();  // the engine says so after the sinks have heard
  EXPECT_EQ(lost, 1);
}

TEST_P(EngineFaultsTest, AThrowingSinkHurtsNobodyElse) {
  struct Throwing : Collector {
    void on_tokens(std::span<const Token>) override { throw std::runtime_error("gone"); }
    void on_finish(const Receipt& receipt) override {
      Collector::on_finish(receipt);
      throw std::runtime_error("gone");
    }
  };
  const auto engine = testing::make_engine(GetParam());
  const auto bad = std::make_shared<Throwing>();
  const auto good = std::make_shared<Collector>();
  const Job job{.prompt = {1, 2}, .max_tokens = 20};
  engine->submit(job, bad);
  engine->submit(job, good);
  EXPECT_EQ(bad->receipt().finish, Finish::kFailed);
  testing::expect_same(Result(*good), testing::solo(job));
}

TEST_P(EngineFaultsTest, ASinkMaySubmitAndCancel) {
  const auto engine = testing::make_engine(GetParam());
  struct Chain : Collector {
    void on_finish(const Receipt& receipt) override {
      if (left > 0) {
        const auto next = std::make_shared<Chain>();
        next->engine = engine;
        next->left = left - 1;
        next->ends = ends;
        engine->cancel(engine->submit({.prompt = {left}, .max_tokens = 1000}, next));
      }
      ++*ends;
      Collector::on_finish(receipt);
    }
    Engine* engine = nullptr;
    int left = 0;
    std::atomic<int>* ends = nullptr;
  };
  std::atomic<int> ends = 0;
  const auto first = std::make_shared<Chain>();
  first->engine = engine.get();
  first->left = 50;
  first->ends = &ends;
  engine->submit({.prompt = {1}, .max_tokens = 3}, first);
  while (ends < 51) std::this_thread::yield();
  EXPECT_EQ(testing::settled(*engine).cancelled, 50u);
}

TEST_P(EngineFaultsTest, EndedJobsKeepNoReferences) {
  const auto engine = testing::make_engine(GetParam());
  std::weak_ptr<Collector> weak;
  {
    const auto sink = std::make_shared<Collector>();
    weak = sink;
    engine->submit({.prompt = {1}, .max_tokens = 3}, sink);
    sink->receipt();
  }
  testing::settled(*engine);
  while (!weak.expired()) std::this_thread::yield();
}

}  // namespace
}  // namespace penstock::engine
