// What the next step does: pure and deterministic, no clock, no executor. Sequences get blocks in order of
// urgency and admission; where they run out the least urgent, newest one is preempted. Decode rows come
// first, then prompt chunks.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/generator.h"

namespace penstock::engine {

/// A prompt is cut at multiples of this only, so that its arithmetic never depends on its neighbours.
inline constexpr int32_t kGridTokens = 64;

struct Budgets {
  int32_t max_batch_tokens = 0;
  int32_t prefill_chunk_tokens = 0;  // prompt tokens beside decode rows, and of one sequence in a step
  int32_t free_slots = 0;
  std::vector<int32_t> free_blocks;  // [groups] that can be taken
};

/// What a sequence must have computed before it decodes.
struct Fill {
  int32_t tokens = 0;
  int32_t done = 0;  // launched, or found in the cache
  int32_t cut = 0;   // a chunk does not reach across it; 0: none
};

/// A job that may start: the first of the queue, and those that are next if it starts.
struct WaitingView {
  Priority priority = Priority::kRealtime;
  int32_t n_slots = 1;            // of its sequences, which start together
  std::span<const int32_t> need;  // [groups] blocks that they take or keep from being taken until they decode
  Fill fill;                      // of the first sequence; the others wait for it
};

struct RunningView {
  Priority priority = Priority::kRealtime;
  Fill fill;
  bool may_decode = false;  // it is filled and another token may be drawn now
  bool leaves = false;  // ended or preempted: its slot and blocks come back when no step in flight uses them
  bool in_flight = false;         // if preempted now it would leave later
  std::span<const int32_t> need;  // [groups] blocks that it takes for its next token, or until it is filled
  std::span<const int32_t> own;   // [groups] blocks that come back when it leaves
  int32_t n_drafts = 0;           // tokens proposed behind it
};

struct PlannedRow {
  int32_t sequence = 0;  // index: the running ones, then the first sequences of the admitted jobs
  bool decode = false;
  int32_t n_tokens = 1;  // of a decode row: one, and the drafts that had room
};

struct StepPlan {
  std::vector<int32_t> preempted;  // of the running ones, in the order in which they must go
  int32_t n_admitted = 0;          // from the front of the waiting ones
  std::vector<PlannedRow> rows;    // decode rows first
};

/// `waiting` in the order of the queue, `running` in order of admission.
StepPlan plan_step(std::span<const WaitingView> waiting, std::span<const RunningView> running,
                   Budgets budgets);

}  // namespace penstock::engine
