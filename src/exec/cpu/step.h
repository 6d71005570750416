// One forward pass as the threads of a job see it: the tokens of the step, the buffers of the plan, scratch.
// The caller fills the step before the job; inside the job each thread writes its own share, with barriers
// between phases. Nothing here depends on the number of threads.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "exec/cpu/activations.h"
#include "exec/cpu/kv_cache.h"
#include "exec/cpu/thread_pool.h"
#include "models/plan.h"

namespace penstock::exec::cpu {

/// Query tokens of one sequence that attention takes together.
struct QueryBlock {
  int32_t slot = 0;
  int32_t first_token = 0, n_tokens = 0;  // in the step
  int32_t position = 0;                   // of the first token
};

/// One piece of attention work: a query block, a KV head, a run of partitions. `partial` is where the
/// results of each partition go, -1 when this item has all of them and finishes the rows.
struct AttendItem {
  int32_t block = 0, head = 0;
  int32_t first_partition = 0, last_partition = 0;
  int32_t partial = -1;
};

/// Softmax pieces that are merged after all items are done.
struct AttendMerge {
  int32_t block = 0, head = 0, partial = 0, n_partials = 0;
};

/// The attention work of one KV group.
struct AttendWork {
  std::vector<AttendItem> items;
  std::vector<AttendMerge> merges;
};

struct Step {
  std::vector<int32_t> ids, positions, slots;  // [T]
  std::vector<int32_t> logit_tokens;           // [R]
  std::vector<QueryBlock> blocks;
  std::vector<AttendWork> attention;  // [kv groups]

  int32_t n_tokens() const { return static_cast<int32_t>(ids.size()); }
  int32_t n_logits() const { return static_cast<int32_t>(logit_tokens.size()); }
};

/// Scratch of one thread.
struct ThreadScratch {
  ActivationRows rows;                                                          // kPrivateRows
  Array<float> exact;                                                           // of linear_exact
  Array<uint8_t> panel;                                                         // of linear_codes
  Array<float> head;                                                            // [max head dim]
  Array<float> tile;                                                            // one KV tile
  Array<float> gate, up;                                                        // joined_floats()
  Array<float> queries, acc, merged, scores, max, sum, merged_max, merged_sum;  // of attention
  Array<int32_t> first, last;                                                   // of attention
};

/// Of gate and of up, that are joined at a time: they fit the cache of a core. More where so many tokens take
/// the columns of one group.
inline constexpr int64_t kJoinedFloats = 1 << 16;

/// A step with this many tokens or fewer prepares its activations on every thread.
inline constexpr int32_t kPrivateRows = 2;

struct Context {
  const models::Plan* plan = nullptr;
  const Kernels* kernels = nullptr;
  ThreadPool* pool = nullptr;
  bool exact = false;
  int32_t max_tokens = 0;
  int32_t max_queries = 0;   // of a query block, all heads of a KV head counted
  int32_t block_tokens = 1;  // of a query block

  Step step;
  KvCache cache;
  std::vector<std::vector<std::vector<int32_t>>> tables;  // [slot][kv group][index] block or -1
  std::vector<Array<float>> buffers;                      // of the plan, [max_tokens, width]
  ActivationRows rows;                                    // shared; what the threads' own do for few tokens
  ActivationRows joined;                                  // shared, of gate and up
  Array<float> keys, values;           // [max_tokens, kv_heads * head_dim] before they go to the cache
  Array<float> sum;                    // [max_tokens, hidden] before a post-norm
  std::vector<Array<float>> cos, sin;  // [ropes][max_tokens, dims / 2]
  Array<float> partials;               // of split attention
  std::vector<float> logits;           // [R, vocab]
  std::vector<ThreadScratch> threads;

  float* buffer(ops::BufferId id) const { return buffers[static_cast<size_t>(id)].data(); }
  int64_t width(ops::BufferId id) const { return plan->buffers[static_cast<size_t>(id)].width; }
  int32_t n_threads() const { return pool->active(); }

  /// A thread's share of n things.
  Range share(int64_t n, int32_t thread) const {
    return {n * thread / n_threads(), n * (thread + 1) / n_threads()};
  }

  /// Pieces that work is cut into for ThreadPool::take: of each thread's share one half, then ever smaller
  /// ones, so that a thread that is delayed leaves work to the others.
  int32_t n_pieces() const { return n_threads() == 1 ? 1 : kPieces * n_threads(); }
  Range piece(int64_t n, int32_t index) const {
    if (n_threads() == 1) return {0, n};
    constexpr int32_t kParts[kPieces] = {0, 8, 12, 14, 15};  // of 16, before each piece of a share
    const auto at = [&](int32_t i) {
      return n * (16 * (i / kPieces) + kParts[i % kPieces]) / (16 * n_threads());
    };
    return {at(index), at(index + 1)};
  }
  static constexpr int32_t kPieces = 5;
};

}  // namespace penstock::exec::cpu
