// The engine's use of the disk cache: what was computed is found again by another engine, by a full one, by a
// session; what is damaged, of another model or in the way is computed again.
#include <future>

#include "base/error.h"
#include "unit/engine/engine_fixture.h"
#include "unit/tier/tier_fixture.h"

namespace penstock::engine {
namespace {

using testing::Collector;
using testing::FakeOptions;
using testing::job_of;
using testing::RandomJobs;
using testing::Result;
using testing::run;
using testing::TemporaryFolder;

/// The parameters: depth as in EngineTest, and whether the executor is blind to roles.
class EngineDiskTest : public ::testing::TestWithParam<std::tuple<int32_t, bool>> {
 protected:
  FakeOptions fake() const {
    FakeOptions options;
    options.role_blind = std::get<1>(GetParam());
    return options;
  }
  std::shared_ptr<tier::DiskStore> open_store(uint64_t max_bytes = uint64_t{1} << 30) const {
    tier::DiskOptions options;
    options.directory = folder_.path();
    options.max_bytes = max_bytes;
    auto store = std::make_shared<tier::DiskStore>(options);
    store->wait_idle();
    return store;
  }
  std::unique_ptr<Engine> engine(std::shared_ptr<tier::DiskStore> store, const FakeOptions& fake,
                                 const std::string& fingerprint = testing::kModel) const {
    EngineOptions options = testing::engine_options(fake);
    options.disk = std::move(store);
    options.fingerprint = fingerprint;
    return testing::make_engine(std::get<0>(GetParam()), fake, options);
  }

  TemporaryFolder folder_;
};
INSTANTIATE_TEST_SUITE_P(Depths, EngineDiskTest,
                         ::testing::Combine(::testing::Values(0, 1, 2), ::testing::Bool()));

CacheState ask(Engine& engine, CacheWish::Kind kind, std::vector<int32_t> tokens, int32_t keep_tokens = 0) {
  std::promise<std::optional<CacheState>> promise;
  engine.cache({kind, std::move(tokens), 0, keep_tokens},
               [&](std::optional<CacheState> state) { promise.set_value(state); });
  const std::optional<CacheState> state = promise.get_future().get();
  EXPECT_TRUE(state.has_value());
  return state.value_or(CacheState{});
}

TEST_P(EngineDiskTest, AnswersAfterARestartEqualColdOnes) {
  const Job job = job_of(200, 30);
  Result cold = run(*engine(open_store(), fake()), job);
  const auto again = engine(open_store(), fake());
  const Result warm = run(*again, job);
  testing::expect_same(warm, cold);
  testing::expect_same(warm, testing::solo(job));
  EXPECT_EQ(warm.receipt.cached_tokens, 192);
  EXPECT_EQ(testing::settled(*again).blocks_restored, 12u);
}

TEST_P(EngineDiskTest, PC_07_AnotherModelFindsNothing) {
  const Job job = job_of(200, 5);
  run(*engine(open_store(), fake()), job);
  const Result other = run(*engine(open_store(), fake(), std::string(32, 'b')), job);
  EXPECT_EQ(other.receipt.cached_tokens, 0);
  Job salted = job;
  salted.cache_salt = 5;
  EXPECT_EQ(run(*engine(open_store(), fake()), salted).receipt.cached_tokens, 0);
  Job refuses = job;
  refuses.use_cache = false;
  EXPECT_EQ(run(*engine(open_store(), fake()), refuses).receipt.cached_tokens, 0);
}

TEST_P(EngineDiskTest, PC_08_DamagedBlocksAreComputedAgain) {
  const Job job = job_of(200, 10);
  const Result cold = run(*engine(open_store(), fake()), job);
  const auto files = testing::files_below(folder_.path() / "blocks");
  for (size_t i = 0; i < files.size(); i += 4) {
    testing::damage(files[i], std::filesystem::file_size(files[i]) - 1);
  }
  const auto store = open_store();
  const auto again = engine(store, fake());
  const Result warm = run(*again, job);
  testing::expect_same(warm, cold);
  EXPECT_LT(warm.receipt.cached_tokens, 192);
  EXPECT_GT(store->stats().corrupt, 0u);
  testing::expect_same(run(*again, job), cold);
}

/// Far more text than blocks: what memory had to give up comes back from the disk, in any order, among
/// neighbours and when windows see only the end.
TEST_P(EngineDiskTest, PC_15_WhatMemoryGaveUpComesBack) {
  FakeOptions options = fake();
  options.n_blocks = {60, 30};
  options.max_position = 40 * options.block_tokens;
  const auto engine = this->engine(open_store(), options);
  RandomJobs random(5);
  std::vector<Job> jobs;
  std::vector<Result> cold;
  for (int i = 0; i < 8; ++i) {
    Job job = random.job(1, 20);
    for (int k = random.integer(150, 300); k > 0; --k) job.prompt.push_back(random.integer(0, 89));
    cold.push_back(run(*engine, job));
    jobs.push_back(std::move(job));
  }
  int32_t found = 0;
  for (int round = 0; round < 6; ++round) {
    std::vector<std::pair<size_t, std::shared_ptr<Collector>>> sinks;
    for (int i = 0; i < 4; ++i) {
      const auto which = static_cast<size_t>(random.integer(0, 7));
      sinks.emplace_back(which, std::make_shared<Collector>());
      engine->submit(jobs[which], sinks.back().second);
    }
    for (const auto& [which, sink] : sinks) {
      const Result warm(*sink);
      testing::expect_same(warm, cold[which]);
      found += warm.receipt.cached_tokens;
    }
  }
  EXPECT_GT(found, 0);
  const Counters c = testing::settled(*engine);
  EXPECT_GT(c.blocks_restored, 0u);
  EXPECT_EQ(c.finished, 8u + 24u);
}

TEST_P(EngineDiskTest, ASessionIsParkedLookedAtAndBroughtBack) {
  const auto store = open_store();
  const auto engine = this->engine(store, fake());
  const Job job = job_of(200, 1);
  const Result cold = run(*engine, job);
  const std::vector<int32_t>& tokens = job.prompt;
  EXPECT_EQ(ask(*engine, CacheWish::Kind::kLook, tokens).memory_tokens, 192);
  const CacheState parked = ask(*engine, CacheWish::Kind::kPark, tokens);
  EXPECT_EQ(parked.disk_tokens, 192);
  EXPECT_EQ(parked.memory_tokens, 0);
  const CacheState back = ask(*engine, CacheWish::Kind::kFetch, tokens);
  EXPECT_EQ(back.memory_tokens, 192);
  const uint64_t read = store->stats().read;
  testing::expect_same(run(*engine, job), cold);
  EXPECT_EQ(store->stats().read, read) << "nothing was left to fetch";
  const CacheState dropped = ask(*engine, CacheWish::Kind::kDrop, tokens, 64);
  EXPECT_LE(dropped.memory_tokens, 64) << "windows may have left nothing there";
  store->wait_idle();
  EXPECT_EQ(ask(*engine, CacheWish::Kind::kLook, tokens).disk_tokens, 64);
  EXPECT_EQ(run(*engine, job).receipt.cached_tokens, 64);
}

/// A park of what still runs leaves it its blocks.
TEST_P(EngineDiskTest, ParkingWhatRunsDisturbsNobody) {
  FakeOptions options = fake();
  testing::Gate gate;
  options.on_step = [&](int32_t step) {
    if (step > 6) gate.pass();
  };
  const auto engine = this->engine(open_store(), options);
  const Job job = job_of(130, 60);
  const auto sink = std::make_shared<Collector>();
  engine->submit(job, sink);
  gate.wait_reached();
  std::promise<std::optional<CacheState>> promise;
  engine->cache({CacheWish::Kind::kPark, job.prompt, 0, 0},
                [&](std::optional<CacheState> state) { promise.set_value(state); });
  gate.open();
  EXPECT_EQ(promise.get_future().get()->disk_tokens, 128);
  testing::expect_same(Result(*sink), testing::solo(job));
}

TEST_P(EngineDiskTest, CancellingWhileBlocksComeIsSafe) {
  const Job job = job_of(200, 30);
  run(*engine(open_store(), fake()), job);
  const auto engine = this->engine(open_store(), fake());
  const auto sink = std::make_shared<Collector>();
  engine->cancel(engine->submit(job, sink));
  sink->receipt();
  testing::expect_same(run(*engine, job), testing::solo(job));
  const auto unheard = std::make_shared<Collector>();
  ask(*engine, CacheWish::Kind::kDrop, job.prompt);
  engine->submit(job_of(200, 3000), unheard);
  engine->stop();
  EXPECT_EQ(unheard->receipt().finish, Finish::kCancelled);
}

TEST_P(EngineDiskTest, StoppingWhileBlocksComeEndsWhoWaits) {
  const Job job = job_of(200, 30);
  run(*engine(open_store(), fake()), job);
  tier::DiskOptions options;
  options.directory = folder_.path();
  options.max_bytes = uint64_t{1} << 30;
  std::promise<void> opened, held;
  const auto gate = opened.get_future().share();
  options.free_bytes = [&held, gate, asked = false](const auto&) mutable {
    if (!std::exchange(asked, true)) held.set_value();
    gate.wait();
    return uint64_t{1} << 40;
  };
  const auto store = std::make_shared<tier::DiskStore>(options);
  store->wait_idle();
  const auto engine = this->engine(store, fake());
  store->write(testing::kModel, testing::block_of(1));  // holds the store's thread
  held.get_future().wait();
  const auto sink = std::make_shared<Collector>();
  engine->submit(job, sink);
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  engine->stop();
  EXPECT_EQ(sink->receipt().finish, Finish::kCancelled);
  opened.set_value();
}

TEST_P(EngineDiskTest, ClearForgetsTheDiskToo) {
  const auto store = open_store();
  const auto engine = this->engine(store, fake());
  const Job job = job_of(100, 5);
  run(*engine, job);
  ask(*engine, CacheWish::Kind::kPark, job.prompt);
  engine->clear_cache();
  ask(*engine, CacheWish::Kind::kLook, job.prompt);
  store->wait_idle();
  EXPECT_EQ(store->stats().blocks, 0u);
  EXPECT_EQ(run(*engine, job).receipt.cached_tokens, 0);
}

TEST(EngineDisk, ParkingNeedsADisk) {
  const auto engine = testing::make_engine(0);
  EXPECT_THROW(engine->cache({CacheWish::Kind::kPark, {1}, 0, 0}, [](auto) {}), base::Error);
}

TEST(EngineDisk, AWishIsAnsweredWhenTheEngineStops) {
  std::promise<bool> answered;
  {
    const auto engine = testing::make_engine(0);
    engine->stop();
    engine->cache({CacheWish::Kind::kLook, {1}, 0, 0},
                  [&](std::optional<CacheState> state) { answered.set_value(state.has_value()); });
  }
  EXPECT_FALSE(answered.get_future().get());
}

}  // namespace
}  // namespace penstock::engine
