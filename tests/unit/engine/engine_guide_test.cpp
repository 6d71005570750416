// Constrained sequences in the engine: beside free ones, behind steps in flight, preempted, with drafts; what
// a guide may do to its own sequence, and not to others.
#include <algorithm>
#include <stdexcept>

#include "base/hash.h"
#include "unit/engine/engine_fixture.h"

namespace penstock::engine {
namespace {

using testing::Collector;
using testing::FakeOptions;
using testing::RandomJobs;
using testing::Result;

/// Whether a token may follow depends on all tokens before it, so a guide that is ahead or behind shows.
class HashGuide : public TokenGuide {
 public:
  explicit HashGuide(int32_t vocab, size_t limit = SIZE_MAX) : vocab_(vocab), limit_(limit) {}

  static bool may_follow(std::span<const int32_t> before, int32_t token) {
    uint64_t hash = before.size();
    for (const int32_t t : before) hash = base::splitmix64(hash ^ static_cast<uint64_t>(t));
    return base::splitmix64(hash ^ static_cast<uint64_t>(token) << 32) % 3 != 0;
  }
  bool mask(std::span<uint32_t> words) override {
    const Use use(*this);
    if (fails_at_ == tokens_.size()) throw std::runtime_error("the guide is lost");
    if (is_free(tokens_.size())) return false;
    std::ranges::fill(words, 0);
    if (empty_at_ == tokens_.size()) return true;
    for (int32_t t = 0; t < vocab_; ++t) {
      if (may_follow(tokens_, t)) words[static_cast<size_t>(t) / 32] |= uint32_t{1} << (t % 32);
    }
    return true;
  }
  size_t allowed(std::span<const int32_t> tokens) override {
    size_t n = 0;
    while (n < tokens.size() && !is_done() && can_accept(tokens[n])) accept(tokens[n++]);
    rollback(n);
    return n;
  }
  void accept(int32_t token) override {
    const Use use(*this);
    if (!can_accept(token)) throw std::runtime_error("a token that may not follow");
    tokens_.push_back(token);
  }
  void rollback(size_t n) override {
    const Use use(*this);
    tokens_.resize(tokens_.size() - n);
  }
  bool is_done() const override { return tokens_.size() >= limit_; }

  /// Behind every eighth token anything may follow.
  static bool is_free(size_t n) { return n % 8 == 7; }

  size_t fails_at_ = SIZE_MAX, empty_at_ = SIZE_MAX;

 private:
  /// Two threads at once are a fault of the engine's.
  struct Use {
    explicit Use(HashGuide& guide) : guide(guide) { EXPECT_EQ(guide.users_++, 0); }
    ~Use() { --guide.users_; }
    HashGuide& guide;
  };
  bool can_accept(int32_t token) const { return is_free(tokens_.size()) || may_follow(tokens_, token); }

  const int32_t vocab_;
  const size_t limit_;
  std::atomic<int> users_ = 0;
  std::vector<int32_t> tokens_;
};

std::shared_ptr<Collector> submit(Engine& engine, const Job& job, std::unique_ptr<TokenGuide> guide) {
  auto sink = std::make_shared<Collector>();
  std::vector<Member> members;
  members.push_back({job.params.seed, sink, std::move(guide)});
  engine.submit(job, std::move(members));
  return sink;
}

std::unique_ptr<TokenGuide> guide_of(const FakeOptions& fake, size_t limit = SIZE_MAX) {
  return std::make_unique<HashGuide>(fake.vocab, limit);
}

void expect_followed(std::span<const int32_t> ids) {
  for (size_t i = 0; i < ids.size(); ++i) {
    if (!HashGuide::is_free(i)) {
      EXPECT_TRUE(HashGuide::may_follow(ids.first(i), ids[i])) << "token " << i;
    }
  }
}

/// Odd jobs are constrained, and some of those end by themselves.
std::unique_ptr<TokenGuide> guide_for(size_t i, const FakeOptions& fake) {
  if (i % 2 == 0) return nullptr;
  return guide_of(fake, i % 3 == 0 ? 9 : SIZE_MAX);
}

/// Together on the engine, and each alone.
void expect_same_as_alone(Engine& engine, std::span<const Job> jobs, const FakeOptions& fake) {
  FakeOptions roomy = fake;
  roomy.n_blocks = {512, 256};
  const auto alone = testing::make_engine(0, roomy);
  std::vector<std::shared_ptr<Collector>> sinks;
  for (size_t i = 0; i < jobs.size(); ++i) sinks.push_back(submit(engine, jobs[i], guide_for(i, fake)));
  for (size_t i = 0; i < jobs.size(); ++i) {
    const Result got(*sinks[i]);
    testing::expect_same(got, Result(*submit(*alone, jobs[i], guide_for(i, fake))));
    if (i % 2 == 1) expect_followed(got.ids);
    EXPECT_EQ(got.receipt.masks > 0, i % 2 == 1);
  }
}

class EngineGuideTest : public ::testing::TestWithParam<int32_t> {};
INSTANTIATE_TEST_SUITE_P(Depths, EngineGuideTest, ::testing::Values(0, 1, 2, 3));

TEST_P(EngineGuideTest, SO_15_ConstrainedAndFreeSequencesShareBatches) {
  const FakeOptions fake;
  RandomJobs random(21);
  std::vector<Job> jobs;
  for (int i = 0; i < 40; ++i) jobs.push_back(random.job(150, 60));
  const auto engine = testing::make_engine(GetParam(), fake);
  expect_same_as_alone(*engine, jobs, fake);
  const Counters c = testing::settled(*engine);
  EXPECT_GT(c.max_batch_width, 3u);
  EXPECT_GT(c.masks, 100u);
}

TEST_P(EngineGuideTest, PreemptedOnesGoOnWhereTheyWere) {
  FakeOptions fake;
  fake.n_blocks = {26, 20};
  RandomJobs random(22);
  std::vector<Job> jobs;
  for (int i = 0; i < 24; ++i) jobs.push_back(random.job(90, 120));
  const auto engine = testing::make_engine(GetParam(), fake);
  expect_same_as_alone(*engine, jobs, fake);
  EXPECT_GT(engine->counters().preempted, 0u);
}

TEST_P(EngineGuideTest, EachAnswerOfAJobHasItsOwn) {
  const FakeOptions fake;
  const auto engine = testing::make_engine(GetParam(), fake);
  const Job job = testing::job_of(70, 40);
  std::vector<Member> members;
  std::vector<std::shared_ptr<Collector>> sinks;
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    sinks.push_back(std::make_shared<Collector>());
    members.push_back({seed, sinks.back(), guide_of(fake)});
  }
  engine->submit(job, std::move(members));
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    const Result got(*sinks[seed - 1]);
    EXPECT_EQ(got.ids.size(), 40u);
    expect_followed(got.ids);
    Job own = job;
    own.params.seed = seed;
    testing::expect_same(got, Result(*submit(*engine, own, guide_of(fake))));
  }
}

TEST_P(EngineGuideTest, TheEndOfAGuideIsAStop) {
  const FakeOptions fake;
  const auto engine = testing::make_engine(GetParam(), fake);
  const Result got(*submit(*engine, testing::job_of(20, 40), guide_of(fake, 12)));
  EXPECT_EQ(got.receipt.finish, Finish::kStop);
  EXPECT_EQ(got.receipt.stop_id, -1);
  EXPECT_EQ(got.ids.size(), 12u);
  const Result exact(*submit(*engine, testing::job_of(20, 12), guide_of(fake, 12)));
  EXPECT_EQ(exact.receipt.finish, Finish::kStop) << "complete with its last token";
}

TEST_P(EngineGuideTest, SO_08_AFailingGuideEndsItsSequenceAlone) {
  const FakeOptions fake;
  const auto engine = testing::make_engine(GetParam(), fake);
  for (const size_t at : {size_t{0}, size_t{5}}) {
    auto failing = std::make_unique<HashGuide>(fake.vocab);
    failing->fails_at_ = at;
    auto empty = std::make_unique<HashGuide>(fake.vocab);
    empty->empty_at_ = at;
    const Job job = testing::job_of(20, 30);
    const auto lost = submit(*engine, job, std::move(failing));
    const auto stuck = submit(*engine, job, std::move(empty));
    const auto fine = submit(*engine, job, guide_of(fake));
    const auto free = submit(*engine, job, nullptr);
    const Result of_lost(*lost), of_stuck(*stuck);
    EXPECT_EQ(of_lost.receipt.finish, Finish::kFailed);
    EXPECT_EQ(of_lost.receipt.error, "the guide is lost");
    EXPECT_EQ(of_lost.ids.size(), at) << "nothing unconstrained";
    EXPECT_EQ(of_stuck.receipt.finish, Finish::kFailed);
    EXPECT_NE(of_stuck.receipt.error.find("grammar allows"), std::string::npos) << of_stuck.receipt.error;
    EXPECT_EQ(of_stuck.ids.size(), at);
    EXPECT_EQ(Result(*fine).ids.size(), 30u);
    testing::expect_same(Result(*free), testing::solo(job));
  }
  EXPECT_EQ(testing::settled(*engine).blocks_used, 0u);
}

/// A small vocabulary, so that lookups find something.
TEST(EngineGuide, SO_12_DraftsChangeNothing) {
  FakeOptions fake;
  fake.vocab = 7;
  fake.n_blocks = {60, 50};
  fake.max_position = 40 * fake.block_tokens;
  const auto clock = std::make_shared<testing::StepClock>();
  FakeOptions target = fake;
  target.on_step = [clock](int32_t) { clock->us += 10000; };
  EngineOptions options = testing::engine_options(target);
  options.max_draft_tokens = 6;
  options.draft_cost_guess = 0.01;
  options.now = [clock] { return clock->now(); };
  const auto engine = testing::make_engine(0, target, options);
  RandomJobs random(23);
  std::vector<Job> jobs;
  for (int i = 0; i < 40; ++i) {
    Job job = random.job(150, 200);
    for (int32_t& token : job.prompt) token %= 7;
    job.biases.clear();
    job.params.frequency_penalty = 0;
    job.stop_ids = i % 4 == 0 ? std::vector<int32_t>{3} : std::vector<int32_t>();
    jobs.push_back(std::move(job));
  }
  expect_same_as_alone(*engine, jobs, fake);
  engine->stop();
  uint64_t accepted = 0;
  for (const auto& stats : engine->counters().drafts) accepted += stats.accepted;
  EXPECT_GT(accepted, 20u);
}

}  // namespace
}  // namespace penstock::engine
