// Settings of one engine.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "tier/disk_store.h"

namespace penstock::engine {

struct EngineOptions {
  int32_t max_seqs = 8;                // sequences that run at the same time, at most the executor's slots
  int32_t max_queue = 256;             // jobs accepted beyond max_seqs; more is kOverloaded
  int32_t max_batch_tokens = 512;      // tokens of one step, at least max_seqs + 64
  int32_t prefill_chunk_tokens = 256;  // prompt tokens that a decode may have to wait for, at least 64
  int32_t context_length = 0;          // tokens of one sequence; 0: the model's
  int32_t max_draft_tokens = 0;        // proposed from a sequence's own text and checked in one step; 0: none
  bool prefix_cache = true;            // beginnings that were computed once serve later jobs
  std::vector<int32_t> n_blocks;       // of each KV group, as the executor was loaded with
  std::shared_ptr<tier::DiskStore> disk;  // of cached blocks, for later and for after a restart; null: none
  tier::Fingerprint fingerprint;  // of the model, the executor and its settings, where there is a disk
  std::function<void()> on_lost;  // called once, by the engine's thread, when the executor can do no more
};

}  // namespace penstock::engine
