#include "engine/engine.h"

#include <algorithm>
#include <ctime>
#include <thread>

#include "base/error.h"
#include "unit/engine/engine_fixture.h"

namespace penstock::engine {
namespace {

using testing::Collector;
using testing::FakeExecutor;
using testing::FakeOptions;
using testing::Gate;
using testing::RandomJobs;
using testing::Result;

/// The parameter: 0 is the fake executor itself, else the depth of the delayed one.
class EngineTest : public ::testing::TestWithParam<int32_t> {};
INSTANTIATE_TEST_SUITE_P(Depths, EngineTest, ::testing::Values(0, 1, 2, 3));

/// One token at a time, without any of the engine.
std::vector<int32_t> by_hand(const Job& job) {
  FakeOptions options;
  options.block_tokens = 4096;
  options.n_blocks = {1, 1};
  FakeExecutor executor(options);
  executor.reset_slot(0, job.prompt, {});
  std::vector<exec::TableEdit> edits = {{0, 0, 0, 0}, {0, 1, 0, 0}};
  std::vector<int32_t> ids;
  for (int32_t position = 0; static_cast<int32_t>(ids.size()) < job.max_tokens; ++position) {
    const bool prompt = position < static_cast<int32_t>(job.prompt.size());
    const bool draws = position + 1 >= static_cast<int32_t>(job.prompt.size());
    const int32_t token = prompt ? job.prompt[static_cast<size_t>(position)] : ids.back();
    const exec::Row row{0, prompt ? exec::Role::kPrompt : exec::Role::kGenerated, 0, 1, position, draws};
    const exec::Ticket ticket = executor.forward({{&row, 1}, {&token, 1}, edits});
    edits.clear();
    if (draws) {
      exec::SampleRow sample{0, job.params, 0, false};
      sample.params.n_biases = static_cast<int32_t>(job.biases.size());
      executor.sample(ticket, {{&sample, 1}, job.biases});
      ids.push_back(executor.wait(ticket).tokens[0]);
    }
    executor.release(ticket);
  }
  return ids;
}

TEST_P(EngineTest, DrawsWhatALoopByHandDraws) {
  RandomJobs random(11);
  const auto engine = testing::make_engine(GetParam());
  for (int i = 0; i < 10; ++i) {
    Job job = random.job(150, 20);
    job.stop_ids.clear();
    const auto sink = std::make_shared<Collector>();
    engine->submit(job, sink);
    EXPECT_EQ(sink->receipt().finish, Finish::kLength) << sink->receipt().error;
    EXPECT_EQ(sink->ids(), by_hand(job));
  }
}

TEST_P(EngineTest, BC_17_JobsTogetherEqualTheirSoloRuns) {
  RandomJobs random(12);
  Gate gate;
  FakeOptions fake;
  fake.on_step = [&](int32_t) { gate.pass(); };
  const auto engine = testing::make_engine(GetParam(), fake);
  std::vector<Job> jobs;
  std::vector<std::shared_ptr<Collector>> sinks;
  for (int i = 0; i < 24; ++i) {
    jobs.push_back(random.job(i % 3 == 0 ? 300 : 30, 40));
    sinks.push_back(std::make_shared<Collector>());
    engine->submit(jobs.back(), sinks.back());
  }
  gate.open();
  int32_t width = 0;
  for (size_t i = 0; i < jobs.size(); ++i) {
    const Result got(*sinks[i]);
    testing::expect_same(got, testing::solo(jobs[i]));
    width = std::max(width, got.receipt.max_batch_width);
  }
  EXPECT_GT(width, 1);
  const Counters c = testing::settled(*engine);
  EXPECT_EQ(c.submitted, 24u);
  EXPECT_EQ(c.finished, 24u);
  EXPECT_GT(c.max_batch_width, 1u);
}

TEST_P(EngineTest, BC_14_JobsThatJoinAndLeaveLoseNoToken) {
  RandomJobs random(13);
  const auto engine = testing::make_engine(GetParam());
  std::vector<Job> jobs;
  std::vector<std::shared_ptr<Collector>> sinks;
  for (int i = 0; i < 20; ++i) {
    jobs.push_back(random.job(100, 60));
    sinks.push_back(std::make_shared<Collector>());
    engine->submit(jobs.back(), sinks.back());
    sinks[static_cast<size_t>(random.integer(0, i))]->wait_for_tokens(
        static_cast<size_t>(random.integer(0, 10)));
  }
  for (size_t i = 0; i < jobs.size(); ++i) testing::expect_same(Result(*sinks[i]), testing::solo(jobs[i]));
}

/// Where rows are padded to one length, the long prompt's later chunks are nothing but padding for the short
/// one.
TEST_P(EngineTest, BC_03_AShortPromptBesideChunksOfALongOne) {
  Gate gate;
  FakeOptions fake;
  fake.on_step = [&](int32_t) { gate.pass(); };
  const auto engine = testing::make_engine(GetParam(), fake);
  const std::vector<Job> jobs = {testing::job_of(10, 12, 3), testing::job_of(4000, 12, 4)};
  std::vector<std::shared_ptr<Collector>> sinks;
  for (const Job& job : jobs) engine->submit(job, sinks.emplace_back(std::make_shared<Collector>()));
  gate.open();
  for (size_t i = 0; i < jobs.size(); ++i) {
    EXPECT_EQ(sinks[i]->receipt().max_batch_width, 2) << "they were in a step together";
    EXPECT_EQ(sinks[i]->ids(), by_hand(jobs[i]));
  }
}

TEST_P(EngineTest, BC_18_EachRowHasItsOwnMaxTokens) {
  Gate gate;
  FakeOptions fake;
  fake.on_step = [&](int32_t) { gate.pass(); };
  const auto engine = testing::make_engine(GetParam(), fake);
  std::mutex mutex;
  std::vector<int32_t> order;
  struct Noting : Collector {
    void on_finish(const Receipt& receipt) override {
      {
        const std::lock_guard lock(*mutex);
        order->push_back(receipt.completion_tokens);
      }
      Collector::on_finish(receipt);
    }
    std::mutex* mutex = nullptr;
    std::vector<int32_t>* order = nullptr;
  };
  std::vector<std::shared_ptr<Noting>> sinks;
  for (const int32_t n : {9, 1, 5, 20, 3}) {
    sinks.push_back(std::make_shared<Noting>());
    sinks.back()->mutex = &mutex;
    sinks.back()->order = &order;
    engine->submit({.prompt = {n, 2, 3}, .max_tokens = n}, sinks.back());
  }
  gate.open();
  for (const auto& sink : sinks) EXPECT_EQ(sink->receipt().finish, Finish::kLength);
  EXPECT_EQ(order, (std::vector<int32_t>{1, 3, 5, 9, 20}));
}

TEST_P(EngineTest, TheContextEndsAnAnswer) {
  FakeOptions fake;
  fake.max_position = 100;
  const auto engine = testing::make_engine(GetParam(), fake);
  EXPECT_EQ(engine->context_length(), 100);
  for (const int32_t prompt : {1, 63, 64, 65, 99}) {
    for (const int32_t max_tokens : {100 - prompt, 101, 1 << 30}) {
      const auto sink = std::make_shared<Collector>();
      engine->submit(
          {.prompt = std::vector<int32_t>(static_cast<size_t>(prompt), 7), .max_tokens = max_tokens}, sink);
      EXPECT_EQ(sink->receipt().finish, Finish::kLength) << sink->receipt().error;
      EXPECT_EQ(sink->receipt().completion_tokens, 100 - prompt);
    }
  }
  try {
    engine->submit({.prompt = std::vector<int32_t>(100, 7), .max_tokens = 1}, std::make_shared<Collector>());
    FAIL();
  } catch (const base::Error& e) {
    EXPECT_EQ(e.code(), base::Code::kContextLength);
    EXPECT_NE(std::string(e.what()).find("context of 100 tokens; got 100 tokens"), std::string::npos);
  }
  EXPECT_EQ(engine->counters().refused, 1u);
}

TEST_P(EngineTest, AStopIdEndsAndIsNotDelivered) {
  const auto engine = testing::make_engine(GetParam());
  Job job{.prompt = {1, 2, 3}, .max_tokens = 30};
  const std::vector<int32_t> all = testing::solo(job).ids;
  for (const size_t at : {0u, 4u, 12u}) {
    job.stop_ids = {1000, all[at]};
    const auto first = std::find(all.begin(), all.end(), all[at]);
    const auto sink = std::make_shared<Collector>();
    engine->submit(job, sink);
    EXPECT_EQ(sink->receipt().finish, Finish::kStop);
    EXPECT_EQ(sink->receipt().stop_id, all[at]);
    EXPECT_EQ(sink->ids(), std::vector<int32_t>(all.begin(), first));
  }
}

TEST_P(EngineTest, ASeedGivesItsTokensAloneAndInABatch) {
  Job job{.prompt = {5, 6, 7}, .max_tokens = 24};
  job.params.temperature = 1;
  job.params.seed = 1234;
  const std::vector<int32_t> expected = testing::solo(job).ids;
  Job other = job;
  other.params.seed = 1235;
  const auto engine = testing::make_engine(GetParam());
  std::vector<std::shared_ptr<Collector>> sinks;
  for (int i = 0; i < 8; ++i) {
    sinks.push_back(std::make_shared<Collector>());
    engine->submit(i % 2 == 0 ? job : other, sinks.back());
  }
  for (size_t i = 0; i < sinks.size(); ++i) {
    sinks[i]->receipt();
    EXPECT_EQ(sinks[i]->ids() == expected, i % 2 == 0);
  }
}

TEST_P(EngineTest, FewBlocksMakeJobsWaitInOrder) {
  FakeOptions fake;
  fake.n_blocks = {24, 16};
  const auto engine = testing::make_engine(GetParam(), fake);
  EXPECT_EQ(engine->context_length(), 24 * 16);
  RandomJobs random(14);
  std::vector<Job> jobs;
  std::vector<std::shared_ptr<Collector>> sinks;
  for (int i = 0; i < 30; ++i) {
    jobs.push_back(random.job(250, 100));
    sinks.push_back(std::make_shared<Collector>());
    engine->submit(jobs.back(), sinks.back());
  }
  for (size_t i = 0; i < jobs.size(); ++i) testing::expect_same(Result(*sinks[i]), testing::solo(jobs[i]));
  EXPECT_EQ(testing::settled(*engine).finished, 30u);
}

TEST_P(EngineTest, AFullQueueIsOverloaded) {
  Gate gate;
  FakeOptions fake;
  fake.on_step = [&](int32_t) { gate.pass(); };
  EngineOptions options = testing::engine_options(fake);
  options.max_seqs = 1;
  options.max_queue = 2;
  const auto engine = testing::make_engine(GetParam(), fake, options);
  std::vector<std::shared_ptr<Collector>> sinks;
  for (int i = 0; i < 3; ++i) {
    sinks.push_back(std::make_shared<Collector>());
    engine->submit({.prompt = {1}, .max_tokens = 2}, sinks.back());
  }
  try {
    engine->submit({.prompt = {1}, .max_tokens = 2}, std::make_shared<Collector>());
    ADD_FAILURE() << "accepted a fourth job";
  } catch (const base::Error& e) {
    EXPECT_EQ(e.code(), base::Code::kOverloaded);
  }
  gate.open();
  for (const auto& sink : sinks) EXPECT_EQ(sink->receipt().finish, Finish::kLength);
  const auto after = std::make_shared<Collector>();
  engine->submit({.prompt = {1}, .max_tokens = 2}, after);
  EXPECT_EQ(after->receipt().finish, Finish::kLength);
  EXPECT_EQ(engine->counters().refused, 1u);
}

TEST(Engine, RefusesJobsThatMakeNoSense) {
  const auto engine = testing::make_engine(0);
  const auto refused = [&](Job job) {
    try {
      engine->submit(std::move(job), std::make_shared<Collector>());
    } catch (const base::Error& e) {
      return e.code() == base::Code::kInvalidRequest;
    }
    return false;
  };
  EXPECT_TRUE(refused({.prompt = {}, .max_tokens = 1}));
  EXPECT_TRUE(refused({.prompt = {97}, .max_tokens = 1}));
  EXPECT_TRUE(refused({.prompt = {-1}, .max_tokens = 1}));
  EXPECT_TRUE(refused({.prompt = {1}, .max_tokens = 0}));
  EXPECT_TRUE(refused({.prompt = {1}, .max_tokens = 1, .params = {.temperature = -1}}));
  EXPECT_TRUE(refused({.prompt = {1}, .max_tokens = 1, .biases = {{97, 1}}}));
  EXPECT_EQ(engine->counters().refused, 6u);
  EXPECT_EQ(engine->counters().submitted, 0u);
}

TEST(Engine, RefusesOptionsThatCouldStall) {
  const FakeOptions fake;
  const auto refused = [&](auto&& change) {
    EngineOptions options = testing::engine_options(fake);
    change(options);
    EXPECT_THROW(testing::make_engine(0, fake, options), base::Error);
  };
  refused([](EngineOptions& o) { o.max_seqs = 0; });
  refused([](EngineOptions& o) { o.prefill_chunk_tokens = 63; });
  refused([](EngineOptions& o) { o.max_batch_tokens = o.max_seqs + 63; });
  refused([](EngineOptions& o) { o.n_blocks.pop_back(); });
  refused([](EngineOptions& o) { o.n_blocks = {0, 1}; });
}

TEST(Engine, AnIdleEngineSleeps) {
  const auto engine = testing::make_engine(0);
  const auto sink = std::make_shared<Collector>();
  engine->submit({.prompt = {1}, .max_tokens = 2}, sink);
  sink->receipt();
  const auto wall = std::chrono::steady_clock::now();
  const std::clock_t before = std::clock();
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  const double cpu = static_cast<double>(std::clock() - before) / CLOCKS_PER_SEC;
  const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - wall;
  EXPECT_LT(cpu, waited.count() / 2);
}

}  // namespace
}  // namespace penstock::engine
