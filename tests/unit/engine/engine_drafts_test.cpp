// Speculation through the engine: with a draft model, with lookups, with both, the answers stay what they
// are; what goes wrong with the model costs nobody an answer.
#include <algorithm>

#include "base/error.h"
#include "unit/engine/engine_fixture.h"

namespace penstock::engine {
namespace {

using speculate::Use;
using testing::Collector;
using testing::FakeOptions;
using testing::RandomJobs;
using testing::Result;

/// A small vocabulary, so that much of what comes came before.
FakeOptions small_target() {
  FakeOptions fake;
  fake.vocab = 7;
  fake.n_blocks = {40, 30};
  fake.max_position = 40 * fake.block_tokens;
  return fake;
}

/// The target's twin, but for its mistakes: the tokens that it draws are those of the target.
FakeOptions twin_of(const FakeOptions& target, int32_t errs_every) {
  FakeOptions fake = target;
  fake.block_tokens = 8;
  fake.n_blocks = {100, 80};
  fake.errs_every = errs_every;
  return fake;
}

using Clock = testing::StepClock;

std::unique_ptr<speculate::DraftModel> draft_model(const FakeOptions& fake,
                                                   const std::shared_ptr<Clock>& clock) {
  speculate::DraftModelOptions options;
  options.max_seqs = fake.max_slots;
  options.max_batch_tokens = 128;
  options.context_length = fake.max_position;
  options.n_blocks = fake.n_blocks;
  options.relative_cost = 0.01;
  options.name = "twin";
  options.now = [clock] { return clock->now(); };
  return std::make_unique<speculate::DraftModel>(std::make_unique<testing::FakeExecutor>(fake),
                                                 testing::fake_plan(fake), options);
}

/// Every step of the target takes ten times as long as one of the model, whatever its width.
std::unique_ptr<Engine> drafting_engine(FakeOptions target, FakeOptions draft, Use use) {
  const auto clock = std::make_shared<Clock>();
  target.on_step = [clock](int32_t) { clock->us += 10000; };
  draft.on_step = [clock](int32_t) { clock->us += 1000; };
  EngineOptions options = testing::engine_options(target);
  options.max_draft_tokens = 6;
  options.draft_cost_guess = 0.01;
  options.draft_use = use;
  options.now = [clock] { return clock->now(); };
  return std::make_unique<Engine>(std::make_unique<testing::FakeExecutor>(target), testing::fake_plan(target),
                                  options, draft_model(draft, clock));
}

std::vector<Job> random_jobs(int n, uint64_t seed) {
  RandomJobs random(seed);
  std::vector<Job> jobs;
  for (int i = 0; i < n; ++i) {
    Job job = random.job(150, 200);
    for (int32_t& token : job.prompt) token %= 7;
    for (ops::Bias& bias : job.biases) bias.token %= 7;
    if (job.biases.size() == 2 && job.biases[0].token == job.biases[1].token) job.biases.pop_back();
    job.stop_ids = i % 4 == 0 ? std::vector<int32_t>{3} : std::vector<int32_t>();
    jobs.push_back(std::move(job));
  }
  return jobs;
}

struct Totals {
  int32_t drafted = 0, accepted = 0;
};

/// Runs the jobs together and compares each with a plain engine's answer.
Totals expect_plain_answers(Engine& engine, const std::vector<Job>& jobs, const FakeOptions& target) {
  FakeOptions roomy = target;
  roomy.n_blocks = {40, 40};
  roomy.explode_token = roomy.nan_token = -1;
  const auto plain = testing::make_engine(0, roomy);
  std::vector<std::shared_ptr<Collector>> sinks;
  for (const Job& job : jobs) {
    sinks.push_back(std::make_shared<Collector>());
    engine.submit(job, sinks.back());
  }
  Totals totals;
  for (size_t i = 0; i < jobs.size(); ++i) {
    const Result got(*sinks[i]);
    const auto alone = std::make_shared<Collector>();
    plain->submit(jobs[i], alone);
    testing::expect_same(got, Result(*alone));
    EXPECT_LE(got.receipt.accepted, got.receipt.drafted);
    EXPECT_LE(got.receipt.draft_steps, got.receipt.drafted);
    totals.drafted += got.receipt.drafted;
    totals.accepted += got.receipt.accepted;
  }
  engine.stop();  // the counters of a step are written after the answers that it ended
  const Counters c = engine.counters();
  EXPECT_EQ(c.blocks_used, 0u);
  uint64_t drafted = 0, steps = 0, accepted = 0;
  for (const speculate::SourceStats& stats : c.drafts) {
    drafted += stats.drafted;
    for (size_t n = 0; n < stats.steps.size(); ++n) steps += stats.steps[n], accepted += n * stats.steps[n];
  }
  EXPECT_EQ(drafted, static_cast<uint64_t>(totals.drafted));
  EXPECT_EQ(accepted, static_cast<uint64_t>(totals.accepted)) << "the histogram adds up";
  EXPECT_LE(steps, drafted);
  return totals;
}

class EngineDraftsTest : public ::testing::TestWithParam<std::tuple<Use, int32_t>> {};
INSTANTIATE_TEST_SUITE_P(Sources, EngineDraftsTest,
                         ::testing::Combine(::testing::Values(Use::kAuto, Use::kNgram, Use::kSuffix,
                                                              Use::kModel),
                                            ::testing::Values(0, 2, 5)));

/// Penalties, temperatures, biases, stop ids, neighbours, few blocks; a model that is always right, seldom
/// and mostly.
TEST_P(EngineDraftsTest, NothingOfTheAnswersChanges) {
  const auto [use, errs_every] = GetParam();
  const FakeOptions target = small_target();
  const auto engine = drafting_engine(target, twin_of(target, errs_every), use);
  const Totals totals = expect_plain_answers(*engine, random_jobs(40, 78), target);
  EXPECT_GT(totals.accepted, 20);
  const Counters c = engine->counters();
  const uint64_t by_lookup = c.drafts[0].drafted, by_model = c.drafts[1].drafted;
  if (use == Use::kModel) {
    EXPECT_EQ(by_lookup, 0u);
  }
  if (use == Use::kNgram || use == Use::kSuffix) {
    EXPECT_EQ(by_model, 0u);
  }
  if (use == Use::kModel || (use == Use::kAuto && errs_every == 0)) {
    EXPECT_GT(by_model, 0u);
  }
  EXPECT_EQ(c.draft_model_failures, 0u);
}

TEST(EngineDrafts, AModelWithTheSameNoiseIsAlwaysRight) {
  const FakeOptions target = small_target();
  const auto engine = drafting_engine(target, twin_of(target, 0), Use::kModel);
  std::vector<Job> jobs = random_jobs(30, 5);
  for (Job& job : jobs) job.stop_ids.clear();  // what is proposed behind an end counts as not drawn
  const Totals totals = expect_plain_answers(*engine, jobs, target);
  EXPECT_GT(totals.drafted, 500);
  EXPECT_EQ(totals.accepted, totals.drafted) << "penalties, seeds and positions are the target's";
}

TEST(EngineDrafts, AModelWithoutBlocksForAllServesSome) {
  const FakeOptions target = small_target();
  FakeOptions draft = twin_of(target, 0);
  draft.n_blocks = {25, 25};
  const auto engine = drafting_engine(target, draft, Use::kModel);
  EXPECT_GT(expect_plain_answers(*engine, random_jobs(30, 6), target).accepted, 20);
}

TEST(EngineDrafts, AModelThatFailsCostsNobodyAnAnswer) {
  const FakeOptions target = small_target();
  FakeOptions draft = twin_of(target, 0);
  draft.explode_token = 5;
  const auto engine = drafting_engine(target, draft, Use::kAuto);
  expect_plain_answers(*engine, random_jobs(30, 9), target);
  EXPECT_GT(engine->counters().draft_model_failures, 0u);
}

TEST(EngineDrafts, ALostModelIsOff) {
  const FakeOptions target = small_target();
  FakeOptions draft = twin_of(target, 0);
  draft.lost_token = 5;
  const auto engine = drafting_engine(target, draft, Use::kModel);
  expect_plain_answers(*engine, random_jobs(30, 10), target);
  EXPECT_EQ(engine->counters().draft_model_failures, 1u);
}

TEST(EngineDrafts, ARowOfTheModelWithoutLogitsEndsItsProposalsAlone) {
  const FakeOptions target = small_target();
  FakeOptions draft = twin_of(target, 0);
  draft.nan_token = 5;
  const auto engine = drafting_engine(target, draft, Use::kModel);
  expect_plain_answers(*engine, random_jobs(30, 11), target);
  EXPECT_GT(engine->counters().draft_model_failures, 0u);
}

TEST(EngineDrafts, AModelOfFewerTokensProposesForTheOthers) {
  const FakeOptions target = small_target();
  FakeOptions draft = twin_of(target, 0);
  draft.vocab = 6;
  const auto engine = drafting_engine(target, draft, Use::kModel);
  expect_plain_answers(*engine, random_jobs(30, 12), target);
}

}  // namespace
}  // namespace penstock::engine
