// One generation in flight: its job, how far it was launched and read, its slot and blocks. Engine thread.
// "Launched" runs ahead of "read" by the steps in flight.
#pragma once

#include <chrono>
#include <memory>

#include "cache/prefix_index.h"
#include "engine/generator.h"
#include "exec/executor.h"
#include "speculate/speculator.h"

namespace penstock::engine {

inline double ms_between(std::chrono::steady_clock::time_point from,
                         std::chrono::steady_clock::time_point to) {
  return std::chrono::duration<double, std::milli>(to - from).count();
}

struct Sequence {
  using Clock = std::chrono::steady_clock;

  uint64_t id = 0;
  uint64_t group = 0;  // the id of the first member: those of a group have the same prompt
  Job job;             // its prompt stands in `tokens`
  std::shared_ptr<Sink> sink;
  std::unique_ptr<TokenGuide> guide;        // knows what was delivered; null: any token may follow
  Priority priority = Priority::kRealtime;  // what waiting has made of the job's

  std::vector<int32_t> tokens;  // the prompt and what was delivered
  int32_t n_prompt = 0;

  // From its start until it ends or is preempted.
  int32_t slot = -1;
  bool asked_disk = false;  // for blocks that are not in memory
  bool waits_disk = false;  // for those to come
  bool waits = false;       // for another member of its group to compute their prompt
  bool is_new = true;       // the executor has not heard of it
  cache::SequenceTable table;
  std::vector<cache::TableChange> adopted;  // for the executor, when it hears of it
  std::vector<exec::BlockCopy> copies;      // likewise; their sources are retained until then
  int32_t fill = 0;                         // tokens to compute before it draws
  int32_t filled = 0;                       // of those, launched or found
  int32_t computed = 0;                     // positions whose step was read, or found
  cache::PrefixCursor cursor;

  int32_t draws = 0;  // draws launched
  int32_t draws_read = 0;
  int32_t last_token = -1;  // of the last draw read
  int32_t in_flight = 0;    // steps launched and not read
  bool ended = false;       // its sink has heard the end; slot and blocks go when no step is in flight
  bool preempted = false;   // it waits again when no step is in flight

  speculate::Track track;       // where drafts are proposed
  std::vector<int32_t> drafts;  // proposed for the next step
  int32_t drawn = 0;            // tokens drawn by the step that was read last
  int32_t accepted = 0;         // drafts among them, up to its end

  Receipt receipt;
  Clock::time_point submitted, started, first_token;

  bool leaves() const { return ended || preempted; }
  bool is_filled() const { return filled == fill; }
  bool may_decode() const {
    return !leaves() && !waits && is_filled() && draws > 0 && draws < job.max_tokens && knows_last_token();
  }
  /// What may follow depends on what was drawn, so a constrained sequence is in one step at a time.
  bool knows_last_token() const { return guide == nullptr || draws == draws_read; }
  /// What it must compute to go on from its tokens: the last one drawn is fed by the next draw.
  int32_t tokens_to_fill() const { return static_cast<int32_t>(tokens.size()) - (draws_read > 0 ? 1 : 0); }
  /// Position of the next token to launch.
  int32_t position() const { return is_filled() ? n_prompt + draws - 1 : filled; }
};

}  // namespace penstock::engine
