// Settings of one engine.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "speculate/sources.h"
#include "tier/disk_store.h"

namespace penstock::engine {

struct EngineOptions {
  int32_t max_seqs = 8;                // sequences that run at the same time, at most the executor's slots
  int32_t max_queue = 256;             // jobs accepted beyond max_seqs; more is kOverloaded
  int32_t max_batch_tokens = 512;      // tokens of one step, at least max_seqs + 64
  int32_t prefill_chunk_tokens = 256;  // prompt tokens that a decode may have to wait for, at least 64
  int32_t context_length = 0;          // tokens of one sequence; 0: the model's
  int32_t max_draft_tokens = 0;        // proposed for a sequence and checked in one step; 0: none
  speculate::Use draft_use = speculate::Use::kAuto;  // what may propose them
  double draft_cost_guess = 0.25;         // of a draft in a step, in plain steps, until it is measured
  int mask_threads = 2;                   // that compute masks of constrained sequences beside a forward
  bool prefix_cache = true;               // beginnings that were computed once serve later jobs
  std::vector<int32_t> n_blocks;          // of each KV group, as the executor was loaded with
  std::shared_ptr<tier::DiskStore> disk;  // of cached blocks, for later and for after a restart; null: none
  tier::Fingerprint fingerprint;  // of the model, the executor and its settings, where there is a disk
  /// By which steps are timed for the choice of drafts.
  std::function<std::chrono::steady_clock::time_point()> now = std::chrono::steady_clock::now;
  std::function<void()> on_lost;  // called once, by the engine's thread, when the executor can do no more
};

}  // namespace penstock::engine
