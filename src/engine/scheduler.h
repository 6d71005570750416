// What the next step does: pure and deterministic, no clock, no executor. Who starts is first come, first
// served; decode rows come first, then prompt chunks in order of admission.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace penstock::engine {

/// A prompt is cut at multiples of this only, so that its arithmetic never depends on its neighbours.
inline constexpr int32_t kGridTokens = 64;

struct Budgets {
  int32_t max_batch_tokens = 0;
  int32_t prefill_chunk_tokens = 0;  // prompt tokens beside decode rows, and of one sequence in a step
  int32_t free_slots = 0;
  std::vector<int32_t> free_blocks;  // [groups] not reserved
};

struct WaitingView {
  int32_t prompt_tokens = 0;
  std::span<const int32_t> blocks_needed;  // [groups]
};

struct RunningView {
  int32_t prompt_tokens = 0;
  int32_t prompt_done = 0;
  bool may_decode = false;  // its prompt is done and another token may be drawn now
};

struct PlannedRow {
  int32_t sequence = 0;  // index: the running ones, then the admitted ones
  bool decode = false;
  int32_t n_tokens = 1;
};

struct StepPlan {
  int32_t n_admitted = 0;  // from the front of the waiting ones
  std::vector<PlannedRow> rows;
};

/// `waiting` and `running` are in order of arrival and admission.
StepPlan plan_step(std::span<const WaitingView> waiting, std::span<const RunningView> running,
                   Budgets budgets);

}  // namespace penstock::engine
