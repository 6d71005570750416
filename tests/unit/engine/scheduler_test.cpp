#include "engine/scheduler.h"

#include <algorithm>
#include <cstdio>
#include <deque>
#include <random>
#include <utility>

#include <gtest/gtest.h>

namespace penstock::engine {
namespace {

constexpr int32_t kBlock = 16;

int32_t blocks_of(int32_t tokens) {
  return (tokens + kBlock - 1) / kBlock;
}

/// Random arrivals, classes, budgets and ends over many simulated steps, with one group of blocks and steps
/// in flight. A sequence of the simulation holds the blocks that it has been given and no others.
class Simulation {
 public:
  explicit Simulation(uint32_t seed) : rng_(seed) {
    budgets_.prefill_chunk_tokens = integer(64, 300);
    slots_ = integer(1, 12);
    budgets_.max_batch_tokens = slots_ + 64 + integer(0, 300);
    blocks_ = blocks_of(kLongest) + integer(0, 60);
    depth_ = integer(1, 2);
  }

  int64_t run(int steps) {
    for (int i = 0; i < steps; ++i) {
      if (integer(0, 3) == 0) arrive();
      step();
      if (::testing::Test::HasFatalFailure()) return taken_;
    }
    // Nobody comes any more, so that tokens are drawn until all have theirs.
    int64_t last = drawn_;
    for (int i = 0; i < 1000 && !(waiting_.empty() && running_.empty()); ++i) {
      step();
      if (std::exchange(last, drawn_) != drawn_) i = 0;
    }
    EXPECT_TRUE(waiting_.empty() && running_.empty()) << "somebody starves";
    EXPECT_EQ(used(), 0);
    return taken_;
  }

  int32_t n_preempted() const { return n_preempted_; }

 private:
  static constexpr int32_t kLongest = 1600;
  struct Seq {
    int32_t number = 0;
    Priority priority = Priority::kRealtime;
    int32_t prompt = 0, answer = 0;  // tokens; of the answer, left to draw
    int32_t drawn = 0;
    Fill fill;
    int32_t held = 0;       // blocks
    int32_t in_flight = 0;  // steps
    bool leaves = false;
    std::vector<int32_t> need, own;
    int32_t position() const { return fill.done < fill.tokens ? fill.done : prompt + drawn - 1; }
    bool decodes() const { return !leaves && fill.done == fill.tokens && drawn > 0 && answer > 0; }
  };

  int32_t integer(int32_t low, int32_t high) {
    return std::uniform_int_distribution<int32_t>(low, high)(rng_);
  }

  int32_t used() const {
    int32_t used = 0;
    for (const Seq& s : running_) used += s.held;
    return used;
  }

  void arrive() {
    Seq s;
    s.number = arrived_++;
    s.priority = static_cast<Priority>(integer(0, 5) == 0 ? integer(1, 2) : 0);
    s.prompt = integer(1, integer(0, 3) == 0 ? 1500 : 100);
    s.answer = integer(1, std::min(kLongest - s.prompt, integer(0, 3) == 0 ? 1000 : 60));
    waiting_.push_back(s);
    sort_waiting();
  }

  /// The queue itself is tested elsewhere: here the more urgent and then the older one goes first.
  void sort_waiting() {
    std::stable_sort(waiting_.begin(), waiting_.end(), [](const Seq& a, const Seq& b) {
      return std::pair(a.priority, a.number) < std::pair(b.priority, b.number);
    });
  }

  StepPlan plan() {
    std::vector<WaitingView> waiting;
    for (Seq& s : waiting_) {
      s.fill = {s.prompt + std::max(0, s.drawn - 1), 0, 0};
      s.need = {blocks_of(s.fill.tokens + 1)};
      if (running_.empty()) s.need[0] = std::min(s.need[0], blocks_);
      waiting.push_back({s.priority, 1, s.need, s.fill});
    }
    std::vector<RunningView> running;
    for (Seq& s : running_) {
      const int32_t end = s.fill.done < s.fill.tokens ? s.fill.tokens + 1 : s.position() + 1;
      s.need = {s.leaves || s.answer == 0 ? 0 : std::max(0, blocks_of(end) - s.held)};
      s.own = {s.held};
      running.push_back({s.priority, s.fill, s.decodes(), s.leaves, s.in_flight > 0, s.need, s.own});
    }
    budgets_.free_slots = slots_ - static_cast<int32_t>(running_.size());
    budgets_.free_blocks = {blocks_ - used()};
    const StepPlan plan = plan_step(waiting, running, budgets_);
    const StepPlan again = plan_step(waiting, running, budgets_);
    EXPECT_EQ(plan.rows.size(), again.rows.size());
    EXPECT_EQ(plan.preempted, again.preempted);
    return plan;
  }

  void step() {
    ++taken_;
    const StepPlan plan = this->plan();
    check_preempted(plan);
    for (const int32_t index : plan.preempted) running_[static_cast<size_t>(index)].leaves = true;
    const auto n_running = static_cast<int32_t>(running_.size());
    admit(plan.n_admitted);
    check(plan, n_running);
    std::vector<int32_t> numbers;
    for (const PlannedRow& row : plan.rows)
      advance(running_[static_cast<size_t>(row.sequence)], row, numbers);
    ASSERT_LE(used_by_stayers(), blocks_) << "more blocks than there are";
    in_flight_.push_back(numbers);
    drop();
    while (static_cast<int32_t>(in_flight_.size()) >= depth_) read();
    drop();
    ASSERT_LE(used(), blocks_);
    if (plan.rows.empty() && !running_.empty()) {
      while (!in_flight_.empty()) read();
      drop();
    }
  }

  int32_t used_by_stayers() const {
    int32_t used = 0;
    for (const Seq& s : running_) used += s.leaves && s.in_flight == 0 ? 0 : s.held;
    return used;
  }

  void advance(Seq& s, const PlannedRow& row, std::vector<int32_t>& numbers) {
    const int32_t end = s.position() + row.n_tokens;
    s.held = std::max(s.held, blocks_of(end));
    ++s.in_flight;
    numbers.push_back(s.number);
    if (!row.decode) {
      s.fill.done += row.n_tokens;
      ASSERT_TRUE(s.fill.done == s.fill.tokens || s.fill.done % kGridTokens == 0) << "cut off the grid";
    }
    if (row.decode || (s.fill.done == s.fill.tokens && s.drawn == 0)) ++s.drawn, --s.answer, ++drawn_;
  }

  void read() {
    for (const int32_t number : in_flight_.front()) {
      for (Seq& s : running_) s.in_flight -= s.number == number;
    }
    in_flight_.pop_front();
  }

  /// Those that are done go, those that were preempted wait again, once nothing is in flight for them.
  void drop() {
    for (Seq& s : running_) {
      if (s.in_flight > 0 || !s.leaves || s.answer == 0) continue;
      Seq again = s;
      again.leaves = false;
      again.held = 0;
      waiting_.push_back(again);
      ++n_preempted_;
    }
    sort_waiting();
    std::erase_if(running_, [](const Seq& s) { return s.in_flight == 0 && (s.leaves || s.answer == 0); });
    for (Seq& s : running_) s.leaves = s.leaves || s.answer == 0;
  }

  void admit(int32_t n) {
    ASSERT_LE(static_cast<size_t>(n), waiting_.size());
    for (; n > 0; --n) {
      running_.push_back(waiting_.front());
      waiting_.pop_front();
    }
    const auto stay = std::count_if(running_.begin(), running_.end(),
                                    [](const Seq& s) { return !s.leaves || s.in_flight > 0; });
    ASSERT_LE(stay, slots_);
  }

  /// Nobody goes while somebody less urgent, or as urgent and newer, stays.
  void check_preempted(const StepPlan& plan) {
    const auto rank = [&](size_t i) { return std::pair(running_[i].priority, i); };
    for (const int32_t index : plan.preempted) {
      const auto gone = static_cast<size_t>(index);
      ASSERT_FALSE(running_[gone].leaves);
      for (size_t i = 0; i < running_.size(); ++i) {
        const bool goes = std::find(plan.preempted.begin(), plan.preempted.end(), static_cast<int32_t>(i)) !=
                          plan.preempted.end();
        ASSERT_TRUE(goes || running_[i].leaves || rank(i) < rank(gone)) << "the wrong one was preempted";
      }
    }
  }

  void check(const StepPlan& plan, int32_t n_running) {
    int32_t decodes = 0, prompt_tokens = 0;
    std::vector<bool> planned(running_.size());
    for (const PlannedRow& row : plan.rows) {
      const auto i = static_cast<size_t>(row.sequence);
      ASSERT_FALSE(planned[i]) << "a sequence twice";
      ASSERT_FALSE(running_[i].leaves) << "one that leaves";
      planned[i] = true;
      ASSERT_GE(row.n_tokens, 1);
      ASSERT_TRUE(!row.decode || prompt_tokens == 0) << "a decode row behind a prompt row";
      (row.decode ? decodes : prompt_tokens) += row.n_tokens;
      if (!row.decode) {
        ASSERT_LE(row.n_tokens, budgets_.prefill_chunk_tokens);
      }
    }
    ASSERT_LE(decodes + prompt_tokens, budgets_.max_batch_tokens);
    if (decodes > 0) {
      ASSERT_LE(prompt_tokens, budgets_.prefill_chunk_tokens) << "a decode waits for more than one chunk";
    }
    // The most urgent, oldest one is never kept from going on.
    size_t first = running_.size();
    for (size_t i = 0; i < static_cast<size_t>(n_running); ++i) {
      const bool better = first == running_.size() || running_[i].priority < running_[first].priority;
      if (!running_[i].leaves && better) first = i;
    }
    const bool room_is_coming =
        std::any_of(running_.begin(), running_.end(), [](const Seq& s) { return s.leaves; });
    if (first < running_.size() && running_[first].answer > 0 && !room_is_coming) {
      ASSERT_TRUE(planned[first]) << "the first one waits";
    }
  }

  std::mt19937 rng_;
  Budgets budgets_;
  int32_t slots_ = 0, blocks_ = 0, depth_ = 1;
  std::deque<Seq> waiting_;
  std::vector<Seq> running_;
  std::deque<std::vector<int32_t>> in_flight_;  // numbers of the sequences of each step
  int32_t arrived_ = 0, n_preempted_ = 0;
  int64_t taken_ = 0, drawn_ = 0;  // steps, tokens
};

TEST(Scheduler, KeepsItsPromisesOverRandomLoads) {
  int32_t preempted = 0;
  for (uint32_t seed = 0; seed < 60; ++seed) {
    Simulation simulation(seed);
    simulation.run(400);
    preempted += simulation.n_preempted();
    if (HasFatalFailure()) FAIL() << "seed " << seed;
  }
  EXPECT_GT(preempted, 100);
}

/// Run as engine_scheduler_long (label slow): it takes minutes.
TEST(Scheduler, DISABLED_KeepsItsPromisesOverMillionsOfSteps) {
  int64_t steps = 0;
  for (uint32_t seed = 1000; steps < 3'000'000; ++seed) {
    steps += Simulation(seed).run(3000);
    if (HasFatalFailure()) FAIL() << "seed " << seed;
  }
  std::printf("%lld steps\n", static_cast<long long>(steps));
}

struct Case {
  std::vector<int32_t> need = {1}, own = {4};
};

RunningView decoding(const Case& c, Priority priority = Priority::kRealtime) {
  return {priority, {64, 64, 0}, true, false, false, c.need, c.own};
}

Budgets budgets(int32_t slots, int32_t blocks) {
  return {200, 64, slots, {blocks}};
}

TEST(Scheduler, BC_16_DecodesGoOnBesideOneChunk) {
  const Case c;
  const std::vector<RunningView> running = {decoding(c),
                                            {{}, {1000, 64, 0}, false, false, false, c.need, c.own}};
  const StepPlan plan = plan_step({}, running, budgets(2, 10));
  ASSERT_EQ(plan.rows.size(), 2u);
  EXPECT_TRUE(plan.rows[0].decode);
  EXPECT_EQ(plan.rows[1].n_tokens, 64);
}

TEST(Scheduler, BC_10_TheNewestIsPreempted) {
  const Case c;
  const std::vector<RunningView> running = {decoding(c), decoding(c), decoding(c)};
  const StepPlan plan = plan_step({}, running, budgets(0, 1));
  EXPECT_EQ(plan.preempted, (std::vector<int32_t>{2}));
  ASSERT_EQ(plan.rows.size(), 2u);
}

TEST(Scheduler, TheLeastUrgentIsPreemptedBeforeTheNewest) {
  const Case c;
  const std::vector<RunningView> running = {decoding(c, Priority::kBackground), decoding(c), decoding(c)};
  EXPECT_EQ(plan_step({}, running, budgets(0, 1)).preempted, (std::vector<int32_t>{0}));
}

TEST(Scheduler, OneWithAStepInFlightGivesWayLater) {
  const Case c;
  std::vector<RunningView> running = {decoding(c), decoding(c)};
  running[1].in_flight = true;
  const StepPlan plan = plan_step({}, running, budgets(0, 0));
  EXPECT_EQ(plan.preempted, (std::vector<int32_t>{1}));
  EXPECT_TRUE(plan.rows.empty());
  running[1].leaves = true;
  EXPECT_TRUE(plan_step({}, running, budgets(0, 0)).preempted.empty()) << "its blocks are on their way";
}

TEST(Scheduler, AMoreUrgentJobMakesRoom) {
  const Case c;
  const std::vector<RunningView> running = {decoding(c, Priority::kBatch), decoding(c)};
  const std::vector<WaitingView> waiting = {{Priority::kRealtime, 1, c.need, {30, 0, 0}}};
  const StepPlan plan = plan_step(waiting, running, budgets(0, 10));
  EXPECT_EQ(plan.preempted, (std::vector<int32_t>{0}));
  EXPECT_EQ(plan.n_admitted, 1);
  const std::vector<WaitingView> equal = {{Priority::kBatch, 1, c.need, {30, 0, 0}}};
  EXPECT_TRUE(plan_step(equal, running, budgets(0, 10)).preempted.empty());
}

TEST(Scheduler, AJobOfSeveralStartsWholeOrNotAtAll) {
  const std::vector<int32_t> need = {6};
  const std::vector<WaitingView> waiting = {{Priority::kRealtime, 3, need, {30, 0, 0}}};
  EXPECT_EQ(plan_step(waiting, {}, budgets(2, 10)).n_admitted, 0);
  EXPECT_EQ(plan_step(waiting, {}, budgets(3, 5)).n_admitted, 0);
  EXPECT_EQ(plan_step(waiting, {}, budgets(3, 6)).n_admitted, 1);
}

TEST(Scheduler, WhoRunsKeepsABlockToGrowBy) {
  const Case c;
  const std::vector<int32_t> need = {4};
  const std::vector<RunningView> running = {decoding(c), decoding(c)};
  const std::vector<WaitingView> waiting = {{Priority::kRealtime, 1, need, {30, 0, 0}}};
  EXPECT_EQ(plan_step(waiting, running, budgets(1, 7)).n_admitted, 0);
  EXPECT_EQ(plan_step(waiting, running, budgets(1, 8)).n_admitted, 1);
}

TEST(Scheduler, AChunkEndsAtTheCut) {
  const Case c;
  const std::vector<WaitingView> waiting = {{Priority::kRealtime, 1, c.need, {50, 0, 20}}};
  EXPECT_EQ(plan_step(waiting, {}, budgets(1, 10)).rows[0].n_tokens, 20);
  const std::vector<RunningView> running = {{{}, {50, 20, 20}, false, false, false, c.need, c.own}};
  EXPECT_EQ(plan_step({}, running, budgets(1, 10)).rows[0].n_tokens, 30);
}

}  // namespace
}  // namespace penstock::engine
