#include "engine/scheduler.h"

#include <algorithm>
#include <numeric>

namespace penstock::engine {
namespace {

/// Tokens of the next chunk within `budget`; 0 when not even one grid cell fits.
int32_t chunk_of(const Fill& fill, int32_t budget) {
  const int32_t end = fill.cut > fill.done ? std::min(fill.cut, fill.tokens) : fill.tokens;
  if (end - fill.done <= budget) return end - fill.done;
  return std::max(0, (fill.done + budget) / kGridTokens * kGridTokens - fill.done);
}

/// Hands out blocks and slots for one step.
class Planner {
 public:
  Planner(std::span<const WaitingView> waiting, std::span<const RunningView> running, Budgets budgets)
      : waiting_(waiting), running_(running), budgets_(std::move(budgets)) {
    order_.resize(running.size());
    std::iota(order_.begin(), order_.end(), size_t{0});
    std::ranges::stable_sort(order_, {}, [&](size_t i) { return running_[i].priority; });
    gone_.resize(running.size());
    granted_.resize(running.size());
    coming_.resize(budgets_.free_blocks.size());
    for (const RunningView& view : running_) {
      if (view.leaves) add_coming(view);
    }
  }

  StepPlan plan() {
    for (size_t rank = 0; rank < order_.size(); ++rank) grant(rank);
    admit();
    add_rows();
    return std::move(plan_);
  }

 private:
  bool fits(std::span<const int32_t> need, bool with_coming) const {
    for (size_t g = 0; g < need.size(); ++g) {
      if (need[g] > budgets_.free_blocks[g] + (with_coming ? coming_[g] : 0)) return false;
    }
    return true;
  }

  void take(std::span<const int32_t> need) {
    for (size_t g = 0; g < need.size(); ++g) budgets_.free_blocks[g] -= need[g];
  }

  void add_coming(const RunningView& view) {
    ++coming_slots_;
    for (size_t g = 0; g < coming_.size(); ++g) coming_[g] += view.own[g];
  }

  bool stays(size_t i) const { return !running_[i].leaves && !gone_[i]; }

  void preempt(size_t i) {
    gone_[i] = true;
    plan_.preempted.push_back(static_cast<int32_t>(i));
    if (granted_[i]) {
      for (size_t g = 0; g < coming_.size(); ++g) budgets_.free_blocks[g] += running_[i].need[g];
    }
    if (running_[i].in_flight) return add_coming(running_[i]);
    ++budgets_.free_slots;
    for (size_t g = 0; g < coming_.size(); ++g) budgets_.free_blocks[g] += running_[i].own[g];
  }

  /// Blocks for the sequence at `rank` of the order: those behind it give way, the last one first.
  void grant(size_t rank) {
    const size_t i = order_[rank];
    if (!stays(i)) return;
    size_t last = order_.size();
    while (!fits(running_[i].need, true)) {
      do --last;
      while (last > rank && !stays(order_[last]));
      if (last == rank) return;  // it waits for those ahead of it
      preempt(order_[last]);
    }
    if (!fits(running_[i].need, false)) return;
    take(running_[i].need);
    granted_[i] = true;
  }

  /// Who is next starts when there is room and every sequence that runs keeps a block to grow by; nobody
  /// overtakes. One of a more urgent class makes room.
  void admit() {
    for (const WaitingView& job : waiting_) {
      const auto n_staying = std::ranges::count_if(order_, [this](size_t i) { return stays(i); });
      std::vector<int32_t> need(job.need.begin(), job.need.end());
      for (int32_t& n : need) n += static_cast<int32_t>(n_staying);
      while (!(job.n_slots <= budgets_.free_slots + coming_slots_ && fits(need, true))) {
        const auto victim =
            std::find_if(order_.rbegin(), order_.rend(), [this](size_t i) { return stays(i); });
        if (victim == order_.rend() || running_[*victim].priority <= job.priority) return;
        preempt(*victim);
        for (int32_t& n : need) --n;
      }
      if (job.n_slots > budgets_.free_slots || !fits(need, false)) return;
      take(job.need);
      budgets_.free_slots -= job.n_slots;
      ++plan_.n_admitted;
    }
  }

  void add_rows() {
    int32_t left = budgets_.max_batch_tokens;
    for (const size_t i : order_) {
      if (!granted_[i] || gone_[i] || !running_[i].may_decode || left == 0) continue;
      plan_.rows.push_back({static_cast<int32_t>(i), true, 1});
      --left;
    }
    for (PlannedRow& row : plan_.rows) {
      const int32_t drafts = std::min(left, running_[static_cast<size_t>(row.sequence)].n_drafts);
      row.n_tokens += drafts;
      left -= drafts;
    }
    if (!plan_.rows.empty()) left = std::min(left, budgets_.prefill_chunk_tokens);
    const auto add_chunk = [&](size_t sequence, const Fill& fill) {
      const int32_t n = chunk_of(fill, std::min(left, budgets_.prefill_chunk_tokens));
      if (n <= 0) return;
      plan_.rows.push_back({static_cast<int32_t>(sequence), false, n});
      left -= n;
    };
    for (const size_t i : order_) {
      if (granted_[i] && !gone_[i]) add_chunk(i, running_[i].fill);
    }
    for (size_t i = 0; i < static_cast<size_t>(plan_.n_admitted); ++i) {
      add_chunk(running_.size() + i, waiting_[i].fill);
    }
  }

  const std::span<const WaitingView> waiting_;
  const std::span<const RunningView> running_;
  Budgets budgets_;
  std::vector<size_t> order_;         // of the running ones: by urgency, then by admission
  std::vector<bool> gone_, granted_;  // [running] preempted now; has its blocks for this step
  std::vector<int32_t> coming_;       // [groups] blocks of those that leave later
  int32_t coming_slots_ = 0;
  StepPlan plan_;
};

}  // namespace

StepPlan plan_step(std::span<const WaitingView> waiting, std::span<const RunningView> running,
                   Budgets budgets) {
  return Planner(waiting, running, std::move(budgets)).plan();
}

}  // namespace penstock::engine
