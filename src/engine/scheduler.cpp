#include "engine/scheduler.h"

#include <algorithm>

namespace penstock::engine {
namespace {

/// Takes the job's share of the budgets, or returns false and takes nothing.
bool admit(const WaitingView& job, Budgets& budgets) {
  if (budgets.free_slots == 0) return false;
  for (size_t g = 0; g < budgets.free_blocks.size(); ++g) {
    if (job.blocks_needed[g] > budgets.free_blocks[g]) return false;
  }
  --budgets.free_slots;
  for (size_t g = 0; g < budgets.free_blocks.size(); ++g) budgets.free_blocks[g] -= job.blocks_needed[g];
  return true;
}

/// Tokens of the next chunk of a prompt within `budget`; 0 when not even one grid cell fits.
int32_t chunk_of(int32_t prompt_tokens, int32_t prompt_done, int32_t budget) {
  const int32_t left = prompt_tokens - prompt_done;
  if (left <= budget) return left;
  return (prompt_done + budget) / kGridTokens * kGridTokens - prompt_done;
}

}  // namespace

StepPlan plan_step(std::span<const WaitingView> waiting, std::span<const RunningView> running,
                   Budgets budgets) {
  StepPlan plan;
  for (const WaitingView& job : waiting) {
    if (!admit(job, budgets)) break;  // nobody overtakes
    ++plan.n_admitted;
  }
  int32_t left = budgets.max_batch_tokens;
  for (size_t i = 0; i < running.size() && left > 0; ++i) {
    if (!running[i].may_decode) continue;
    plan.rows.push_back({static_cast<int32_t>(i), true, 1});
    --left;
  }
  if (!plan.rows.empty()) left = std::min(left, budgets.prefill_chunk_tokens);

  const auto add_chunk = [&](size_t sequence, int32_t prompt_tokens, int32_t prompt_done) {
    const int32_t n = chunk_of(prompt_tokens, prompt_done, std::min(left, budgets.prefill_chunk_tokens));
    if (n <= 0) return;
    plan.rows.push_back({static_cast<int32_t>(sequence), false, n});
    left -= n;
  };
  for (size_t i = 0; i < running.size(); ++i) add_chunk(i, running[i].prompt_tokens, running[i].prompt_done);
  for (size_t i = 0; i < static_cast<size_t>(plan.n_admitted); ++i) {
    add_chunk(running.size() + i, waiting[i].prompt_tokens, 0);
  }
  return plan;
}

}  // namespace penstock::engine
