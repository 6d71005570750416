// How many blocks of keys and values a model gets, and whether it fits at all: pure arithmetic over what the
// executor says it needs and what the guard leaves.
#pragma once

#include <cstdint>
#include <vector>

#include "exec/executor.h"
#include "models/plan.h"
#include "pool/loader.h"

namespace penstock::pool {

struct CacheNeeds {
  const models::Plan& plan;
  const exec::MemoryPlan& memory;
  const exec::Caps& caps;
  const LoadOptions& options;
  int32_t context_length = 0;  // tokens
};

struct CachePlan {
  std::vector<int32_t> n_blocks;  // of each KV group
  int32_t sequences = 0;          // whole contexts that they hold
  ModelMemory memory;
};

/// The cache takes options.kv_memory_bytes, else as much as `max_seqs` whole contexts need, but no more than
/// half of what weights and buffers leave of the guard's free memory (all of it on a device with memory of
/// its own, and where one context needs it). Throws NoMemory with what is needed, what is free, what the
/// limit is and what would fit.
CachePlan plan_cache(const CacheNeeds& needs, const MemoryGuard& guard);

/// Of a plan that encodes: room for the texts of one step. Throws NoMemory.
CachePlan plan_texts(const CacheNeeds& needs, const exec::Limits& limits, const MemoryGuard& guard);

}  // namespace penstock::pool
