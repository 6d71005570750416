// The engine's use of blocks: beginnings that are found, sequences that give way, answers that start
// together.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

#include "base/error.h"
#include "unit/engine/engine_fixture.h"

namespace penstock::engine {
namespace {

using testing::Collector;
using testing::FakeOptions;
using testing::Gate;
using testing::job_of;
using testing::RandomJobs;
using testing::Result;
using testing::run;

/// The parameters: depth as in EngineTest, and whether the executor is blind to roles.
class EngineCacheTest : public ::testing::TestWithParam<std::tuple<int32_t, bool>> {
 protected:
  FakeOptions fake() const {
    FakeOptions options;
    options.role_blind = std::get<1>(GetParam());
    return options;
  }
  std::unique_ptr<Engine> engine(const FakeOptions& options) const {
    return testing::make_engine(std::get<0>(GetParam()), options);
  }
};
INSTANTIATE_TEST_SUITE_P(Depths, EngineCacheTest,
                         ::testing::Combine(::testing::Values(0, 1, 2, 3), ::testing::Bool()));

TEST_P(EngineCacheTest, AWarmAnswerEqualsAColdOne) {
  const auto engine = this->engine(fake());
  const Job job = job_of(200, 30);
  const Result cold = run(*engine, job);
  const Result warm = run(*engine, job);
  testing::expect_same(cold, testing::solo(job));
  testing::expect_same(warm, cold);
  EXPECT_EQ(cold.receipt.cached_tokens, 0);
  EXPECT_EQ(warm.receipt.cached_tokens, fake().role_blind ? 199 : 192);
  EXPECT_EQ(warm.receipt.prompt_tokens, 200);
  const Counters c = testing::settled(*engine);
  EXPECT_EQ(c.prefix.hits, 1u);
  EXPECT_EQ(c.prompt_tokens, static_cast<uint64_t>(400 - warm.receipt.cached_tokens));
  EXPECT_GT(c.blocks_kept, 0u);
}

/// PC-06: continuing an entry must not change it.
TEST_P(EngineCacheTest, PC_06_AContinuationLeavesTheEntryAsItWas) {
  const auto engine = this->engine(fake());
  const Job first = job_of(100, 20, 5);
  const Result cold = run(*engine, first);
  Job turn = first;
  turn.prompt.insert(turn.prompt.end(), cold.ids.begin(), cold.ids.end());
  for (int32_t i = 0; i < 30; ++i) turn.prompt.push_back(i);
  const Result second = run(*engine, turn);
  testing::expect_same(second, testing::solo(turn));
  // What was computed for a draw serves a prompt only where the bits do not tell them apart.
  EXPECT_EQ(second.receipt.cached_tokens, fake().role_blind ? 119 : 96);
  testing::expect_same(run(*engine, first), cold);
  testing::expect_same(run(*engine, turn), second);
}

TEST_P(EngineCacheTest, SaltsAndRefusalsShareNothing) {
  const auto engine = this->engine(fake());
  Job job = job_of(100, 5);
  run(*engine, job);
  job.cache_salt = 9;
  EXPECT_EQ(run(*engine, job).receipt.cached_tokens, 0);
  EXPECT_GT(run(*engine, job).receipt.cached_tokens, 0);
  job.use_cache = false;
  EXPECT_EQ(run(*engine, job).receipt.cached_tokens, 0);
  job.cache_salt = 10;
  run(*engine, job);
  job.use_cache = true;
  EXPECT_EQ(run(*engine, job).receipt.cached_tokens, 0) << "a job that refused left something";
}

TEST_P(EngineCacheTest, ClearForgets) {
  const auto engine = this->engine(fake());
  const Job job = job_of(100, 5);
  run(*engine, job);
  engine->clear_cache();
  EXPECT_EQ(run(*engine, job).receipt.cached_tokens, 0);
  engine->clear_cache();
  while (engine->counters().blocks_kept > 0) std::this_thread::yield();
  EXPECT_EQ(engine->counters().prefix.entries, 0u);
}

TEST_P(EngineCacheTest, MM_03_ClearGivesTheMemoryOfUnusedBlocksBackAndLeavesThoseInUse) {
  FakeOptions options = fake();
  Gate gate;
  std::atomic<bool> holds = false;
  std::atomic<size_t> dropped = 0;
  options.on_step = [&](int32_t) {
    if (holds) gate.pass();
  };
  options.on_drop = [&](int32_t, size_t n_blocks) { dropped += n_blocks; };
  const auto engine = this->engine(options);
  run(*engine, job_of(100, 5));
  holds = true;
  const auto running = std::make_shared<Collector>();
  const Job job = job_of(130, 40);
  engine->submit(job, running);
  gate.wait_reached();
  engine->clear_cache();
  gate.open();
  testing::expect_same(Result(*running), testing::solo(job));
  EXPECT_GT(dropped, 0u);
  EXPECT_LT(dropped, engine->counters().blocks_total);
  testing::expect_same(run(*engine, job), testing::solo(job));
  engine->clear_cache();
  while (engine->counters().blocks_kept > 0) std::this_thread::yield();
}

TEST_P(EngineCacheTest, RunningRequestsShareTheirBeginning) {
  FakeOptions options = fake();
  Gate gate;
  std::atomic<int32_t> steps = 0;
  options.on_step = [&](int32_t step) {
    steps = step;
    if (step > 6) gate.pass();
  };
  const auto engine = this->engine(options);
  const auto first = std::make_shared<Collector>(), second = std::make_shared<Collector>();
  const Job job = job_of(130, 200);
  engine->submit(job, first);
  gate.wait_reached();
  Job other = job;
  other.params.seed = 77;
  other.max_tokens = 10;
  engine->submit(other, second);
  gate.open();
  testing::expect_same(Result(*second), testing::solo(other));
  EXPECT_EQ(second->receipt().cached_tokens, 128);
  testing::expect_same(Result(*first), testing::solo(job));
}

/// PC-23 and MM-10: far more work than blocks; sequences give way and go on as if nothing had been.
TEST_P(EngineCacheTest, MM_10_WhoGivesWayGoesOnAsIfNothingHadBeen) {
  FakeOptions options = fake();
  options.n_blocks = {24, 20};
  options.max_position = 24 * options.block_tokens;
  const auto engine = this->engine(options);
  RandomJobs random(31);
  std::vector<Job> jobs;
  std::vector<std::shared_ptr<Collector>> sinks;
  std::vector<int32_t> shared;
  for (int32_t i = 0; i < 150; ++i) shared.push_back(random.integer(0, 89));
  for (int i = 0; i < 60; ++i) {
    Job job = random.job(120, 150);
    if (i % 3 > 0) {  // behind a common beginning
      const auto n = random.integer(1, 150);
      job.prompt.insert(job.prompt.begin(), shared.begin(), shared.begin() + n);
    }
    job.priority = i % 7 == 0 ? Priority::kBatch : Priority::kRealtime;
    job.tenant = static_cast<uint64_t>(i % 2);
    jobs.push_back(job);
    sinks.push_back(std::make_shared<Collector>());
    engine->submit(job, sinks.back());
  }
  for (size_t i = 0; i < jobs.size(); ++i) {
    const Result got(*sinks[i]);
    const Result alone = testing::solo(jobs[i]);
    const auto room = static_cast<size_t>(options.max_position) - jobs[i].prompt.size();
    if (alone.ids.size() > room) continue;
    testing::expect_same(got, alone);
  }
  const Counters c = testing::settled(*engine);
  EXPECT_EQ(c.finished, 60u);
  EXPECT_GT(c.preempted, 0u);
  EXPECT_GT(c.prefix.hits, 0u);
}

TEST_P(EngineCacheTest, AnswersOfOneJobStartTogetherAndShareThePrompt) {
  FakeOptions options = fake();
  Gate gate;
  options.on_step = [&](int32_t) { gate.pass(); };
  const auto engine = this->engine(options);
  const Job job = job_of(150, 12);
  const auto before = std::make_shared<Collector>();
  engine->submit(job_of(20, 40, 3), before);
  std::vector<std::shared_ptr<Collector>> sinks;
  std::vector<Member> members;
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    sinks.push_back(std::make_shared<Collector>());
    members.push_back({seed, sinks.back()});
  }
  EXPECT_EQ(engine->submit(job, std::move(members)).size(), 5u);
  gate.open();
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    Job alone = job;
    alone.params.seed = seed;
    const Result got(*sinks[seed - 1]);
    testing::expect_same(got, testing::solo(alone));
    EXPECT_EQ(got.receipt.cached_tokens, seed == 1 ? 0 : 144);
  }
  EXPECT_EQ(testing::settled(*engine).prompt_tokens, 20u + 150u + 4 * 6u);
}

TEST_P(EngineCacheTest, MoreAnswersThanMayRunAreRefused) {
  const auto engine = this->engine(fake());
  std::vector<Member> members(9);
  for (Member& member : members) member.sink = std::make_shared<Collector>();
  EXPECT_THROW(engine->submit(job_of(10, 5), std::move(members)), base::Error);
  EXPECT_EQ(engine->counters().refused, 1u);
}

TEST_P(EngineCacheTest, ADeadlineEndsRunningAndWaitingJobs) {
  FakeOptions options = fake();
  options.max_slots = 1;
  Gate gate;
  options.on_step = [&](int32_t) { gate.pass(); };
  const auto engine = this->engine(options);
  Job job = job_of(10, 3000);
  job.deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(20);
  const auto runs = std::make_shared<Collector>(), waits = std::make_shared<Collector>();
  engine->submit(job, runs);
  engine->submit(job, waits);
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  gate.open();
  EXPECT_EQ(runs->receipt().finish, Finish::kExpired);
  EXPECT_EQ(waits->receipt().finish, Finish::kExpired);
  EXPECT_EQ(testing::settled(*engine).expired, 2u);
}

TEST_P(EngineCacheTest, CancellingOneThatGaveWayLeavesNothingBehind) {
  FakeOptions options = fake();
  options.n_blocks = {12, 12};
  options.max_position = 12 * options.block_tokens;
  const auto engine = this->engine(options);
  RandomJobs random(8);
  for (int round = 0; round < 20; ++round) {
    std::vector<uint64_t> ids;
    std::vector<std::shared_ptr<Collector>> sinks;
    for (int i = 0; i < 6; ++i) {
      sinks.push_back(std::make_shared<Collector>());
      ids.push_back(engine->submit(job_of(40 + i, 100, static_cast<uint64_t>(i)), sinks.back()));
    }
    sinks[0]->wait_for_tokens(static_cast<size_t>(random.integer(1, 60)));
    for (const uint64_t id : ids) engine->cancel(id);
    for (const auto& sink : sinks) sink->receipt();
    const Counters c = testing::settled(*engine);
    EXPECT_EQ(c.blocks_used, 0u);
  }
}

/// Drafts change nothing but the number of steps: with penalties, temperatures, stop ids, neighbours and few
/// blocks.
TEST_P(EngineCacheTest, DraftsChangeNothingOfTheAnswers) {
  FakeOptions options = fake();
  options.vocab = 7;  // so that much of what comes came before
  options.n_blocks = {40, 30};
  options.max_position = 40 * options.block_tokens;
  testing::StepClock clock;  // drafts are free
  options.on_step = [&](int32_t) { clock.us += 1000; };
  EngineOptions drafting = testing::engine_options(options);
  drafting.max_draft_tokens = 6;
  drafting.draft_cost_guess = 0.01;
  drafting.now = [&] { return clock.now(); };
  const auto engine = testing::make_engine(std::get<0>(GetParam()), options, drafting);
  FakeOptions plain = options;
  plain.n_blocks = {40, 40};
  plain.on_step = nullptr;
  const auto alone = testing::make_engine(0, plain);
  RandomJobs random(77);
  std::vector<Job> jobs;
  std::vector<std::shared_ptr<Collector>> sinks;
  for (int i = 0; i < 40; ++i) {
    Job job = random.job(100, 200);
    for (int32_t& token : job.prompt) token %= 7;
    job.biases.clear();
    if (i % 4 > 0)
      job.stop_ids.clear();
    else
      job.stop_ids = {3};
    jobs.push_back(job);
    sinks.push_back(std::make_shared<Collector>());
    engine->submit(job, sinks.back());
  }
  int32_t accepted = 0;
  for (size_t i = 0; i < jobs.size(); ++i) {
    const Result got(*sinks[i]);
    testing::expect_same(got, run(*alone, jobs[i]));
    EXPECT_LE(got.receipt.accepted, got.receipt.drafted);
    accepted += got.receipt.accepted;
  }
  if (std::get<0>(GetParam()) <= 1) {
    EXPECT_GT(accepted, 20);
  } else {
    EXPECT_EQ(accepted, 0) << "steps overlap: the text is not known when the next step is planned";
  }
  EXPECT_EQ(testing::settled(*engine).blocks_used, 0u);
}

}  // namespace
}  // namespace penstock::engine
