// One generation in flight: its job, how far it was launched and read, its slot and blocks. Engine thread.
// "Launched" runs ahead of "read" by the steps in flight.
#pragma once

#include <chrono>
#include <memory>

#include "cache/sequence_table.h"
#include "engine/generator.h"

namespace penstock::engine {

struct Sequence {
  using Clock = std::chrono::steady_clock;

  uint64_t id = 0;
  Job job;
  std::shared_ptr<Sink> sink;
  std::vector<int32_t> blocks_needed;  // [groups]

  int32_t slot = -1;
  cache::SequenceTable table;
  int32_t prompt_done = 0;  // prompt tokens launched
  int32_t draws = 0;        // draws launched
  int32_t draws_read = 0;
  int32_t last_token = -1;  // of the last draw read
  int32_t in_flight = 0;    // steps launched and not read
  bool ended = false;       // its sink has heard the end; slot and blocks go when no step is in flight

  Receipt receipt;
  Clock::time_point submitted, started, first_token;

  int32_t prompt_tokens() const { return static_cast<int32_t>(job.prompt.size()); }
  bool prompt_launched() const { return prompt_done == prompt_tokens(); }
  bool may_decode() const { return !ended && prompt_launched() && draws < job.max_tokens; }
  /// Position of the next token to launch.
  int32_t position() const { return prompt_launched() ? prompt_tokens() + draws - 1 : prompt_done; }
};

}  // namespace penstock::engine
