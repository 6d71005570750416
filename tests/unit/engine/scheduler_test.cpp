#include "engine/scheduler.h"

#include <algorithm>
#include <deque>
#include <random>

#include <gtest/gtest.h>

namespace penstock::engine {
namespace {

/// Random arrivals, budgets and ends over many simulated steps.
class Simulation {
 public:
  explicit Simulation(uint32_t seed) : rng_(seed) {
    budgets_.prefill_chunk_tokens = integer(64, 300);
    slots_ = integer(1, 12);
    budgets_.max_batch_tokens = slots_ + 64 + integer(0, 300);
    blocks_ = {integer(20, 80), integer(10, 40)};
  }

  void run(int steps) {
    for (int i = 0; i < steps; ++i) {
      if (integer(0, 3) == 0) arrive();
      step();
      if (::testing::Test::HasFatalFailure()) return;
    }
    for (int i = 0; i < 20000 && !(waiting_.empty() && running_.empty()); ++i) step();
    EXPECT_TRUE(waiting_.empty() && running_.empty()) << "somebody starves";
    EXPECT_EQ(reserved_, (std::vector<int32_t>{0, 0}));
  }

 private:
  struct Seq {
    int32_t number = 0, prompt = 0, done = 0, answer = 0;
    std::vector<int32_t> blocks;
  };

  int32_t integer(int32_t low, int32_t high) {
    return std::uniform_int_distribution<int32_t>(low, high)(rng_);
  }

  void arrive() {
    Seq s;
    s.number = arrived_++;
    s.prompt = integer(1, integer(0, 3) == 0 ? 1500 : 100);
    s.answer = integer(1, 60);
    s.blocks = {integer(1, blocks_[0]), integer(1, blocks_[1])};
    waiting_.push_back(s);
  }

  StepPlan plan() {
    std::vector<WaitingView> waiting;
    for (const Seq& s : waiting_) waiting.push_back({s.prompt, s.blocks});
    std::vector<RunningView> running;
    for (const Seq& s : running_) running.push_back({s.prompt, s.done, s.done == s.prompt});
    budgets_.free_slots = slots_ - static_cast<int32_t>(running_.size());
    budgets_.free_blocks = {blocks_[0] - reserved_[0], blocks_[1] - reserved_[1]};
    const StepPlan plan = plan_step(waiting, running, budgets_);
    const StepPlan again = plan_step(waiting, running, budgets_);
    EXPECT_EQ(plan.rows.size(), again.rows.size());
    return plan;
  }

  void step() {
    const StepPlan plan = this->plan();
    admit(plan.n_admitted);
    check(plan);
    for (const PlannedRow& row : plan.rows) {
      Seq& s = running_[static_cast<size_t>(row.sequence)];
      if (!row.decode) {
        s.done += row.n_tokens;
        ASSERT_TRUE(s.done == s.prompt || s.done % kGridTokens == 0) << "cut off the grid";
        if (s.done == s.prompt) --s.answer;
      } else {
        --s.answer;
      }
    }
    for (const Seq& s : running_) {
      if (s.answer > 0) continue;
      for (size_t g = 0; g < 2; ++g) reserved_[g] -= s.blocks[g];
    }
    std::erase_if(running_, [](const Seq& s) { return s.answer <= 0; });
  }

  void admit(int32_t n) {
    ASSERT_LE(static_cast<size_t>(n), waiting_.size());
    for (; n > 0; --n) {
      ASSERT_EQ(waiting_.front().number, admitted_++) << "overtaken";
      for (size_t g = 0; g < 2; ++g) reserved_[g] += waiting_.front().blocks[g];
      running_.push_back(waiting_.front());
      waiting_.pop_front();
    }
    ASSERT_LE(static_cast<int32_t>(running_.size()), slots_);
    for (size_t g = 0; g < 2; ++g) ASSERT_LE(reserved_[g], blocks_[g]);
  }

  void check(const StepPlan& plan) {
    int32_t decodes = 0, prompt_tokens = 0, first_prompt = -1;
    std::vector<bool> planned(running_.size());
    for (const PlannedRow& row : plan.rows) {
      ASSERT_FALSE(planned[static_cast<size_t>(row.sequence)]) << "a sequence twice";
      planned[static_cast<size_t>(row.sequence)] = true;
      ASSERT_GE(row.n_tokens, 1);
      ASSERT_TRUE(!row.decode || prompt_tokens == 0) << "a decode row behind a prompt row";
      (row.decode ? decodes : prompt_tokens) += row.n_tokens;
      if (!row.decode && first_prompt < 0) first_prompt = row.sequence;
      if (!row.decode) {
        ASSERT_LE(row.n_tokens, budgets_.prefill_chunk_tokens);
      }
    }
    ASSERT_LE(decodes + prompt_tokens, budgets_.max_batch_tokens);
    if (decodes > 0) {
      ASSERT_LE(prompt_tokens, budgets_.prefill_chunk_tokens);
    }
    for (size_t i = 0; i < running_.size(); ++i) {
      const Seq& s = running_[i];
      if (s.done == s.prompt) {
        ASSERT_TRUE(planned[i]) << "a decode that waits";
      }
      if (s.done == s.prompt) continue;
      ASSERT_LE(first_prompt, static_cast<int32_t>(i)) << "a later prompt came first";
      ASSERT_GE(first_prompt, 0) << "a prompt that does not move";
      break;
    }
    if (!waiting_.empty()) {
      ASSERT_FALSE(running_.empty()) << "work waits for nothing";
    }
  }

  std::mt19937 rng_;
  Budgets budgets_;
  int32_t slots_ = 0;
  std::vector<int32_t> blocks_;
  std::vector<int32_t> reserved_ = {0, 0};
  std::deque<Seq> waiting_;
  std::vector<Seq> running_;
  int32_t arrived_ = 0, admitted_ = 0;
};

TEST(Scheduler, KeepsBudgetsAndStarvesNobody) {
  for (uint32_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    Simulation(seed).run(400);
    if (HasFatalFailure()) return;
  }
}

TEST(Scheduler, ALongPromptTakesChunksBesideDecodes) {
  const std::vector<RunningView> running = {{10, 10, true}, {30000, 64, false}, {5, 0, false}};
  const StepPlan plan = plan_step({}, running, {512, 128, 0, {}});
  ASSERT_EQ(plan.rows.size(), 2u);
  EXPECT_TRUE(plan.rows[0].decode);
  EXPECT_EQ(plan.rows[1].sequence, 1);
  EXPECT_EQ(plan.rows[1].n_tokens, 128);
}

TEST(Scheduler, ShortPromptsFillWhatTheGridLeaves) {
  const std::vector<RunningView> running = {{10, 10, true}, {1000, 0, false}, {20, 0, false}};
  const StepPlan plan = plan_step({}, running, {512, 100, 0, {}});
  ASSERT_EQ(plan.rows.size(), 3u);
  EXPECT_EQ(plan.rows[1].n_tokens, 64);
  EXPECT_EQ(plan.rows[2].n_tokens, 20);
}

TEST(Scheduler, NobodyOvertakesAJobThatDoesNotFitYet) {
  const std::vector<int32_t> large = {9}, small = {1};
  const std::vector<WaitingView> waiting = {{4, small}, {4, large}, {4, small}};
  EXPECT_EQ(plan_step(waiting, {}, {512, 128, 8, {8}}).n_admitted, 1);
  EXPECT_EQ(plan_step(waiting, {}, {512, 128, 8, {11}}).n_admitted, 3);
  EXPECT_EQ(plan_step(waiting, {}, {512, 128, 2, {11}}).n_admitted, 2);
}

}  // namespace
}  // namespace penstock::engine
