#include "exec/cpu/context_setup.h"

#include <algorithm>

#include "exec/cpu/attend_work.h"

namespace penstock::exec::cpu {

namespace {

/// The largest widths that the operations of a plan work with.
struct Widths {
  int64_t input = 8;    // buffers
  int64_t mlp = 8;      // gate and up
  int64_t kv = 8;       // keys of all heads
  int64_t sum = 8;      // residuals
  int32_t dim = 8;      // of a head
  int32_t queries = 1;  // heads of a KV head
};

Widths widths_of(const models::Plan& plan) {
  Widths w;
  for (const models::BufferSpec& buffer : plan.buffers) w.input = std::max(w.input, buffer.width);
  for (const ops::Operation& operation : plan.operations) {
    if (const auto* in = std::get_if<ops::AttnIn>(&operation))
      w.kv = std::max(w.kv, int64_t{in->kv_heads} * in->head_dim);
    if (const auto* mlp = std::get_if<ops::Mlp>(&operation))
      w.mlp = std::max(w.mlp, plan.weights[static_cast<size_t>(mlp->gate.weight)].rows);
    if (const auto* attend = std::get_if<ops::Attend>(&operation)) {
      w.dim = std::max(w.dim, attend->head_dim);
      w.queries = std::max(w.queries, attend->q_heads / attend->kv_heads);
    }
  }
  w.sum = w.input;
  return w;
}

int32_t block_queries(const Widths& w, const Kernels& kernels) {
  return std::max(kernels.queries / w.queries, 1) * w.queries;
}

int64_t partial_floats(const Widths& w, const Limits& limits, int32_t threads) {
  return max_partials(threads, limits.max_context) * w.queries * (padded_dim(w.dim) + 2);
}

/// Room for the columns that gate and up are joined in: whole groups of the next matrix, whole strips.
size_t joined_floats(int32_t tokens, const Kernels& kernels) {
  const int64_t grain = std::max<int64_t>(kernels.strips * kStripRows, 128);
  return static_cast<size_t>(std::max(kJoinedFloats, tokens * grain));
}

ThreadScratch thread_scratch(const Widths& w, const Limits& limits, GroupSet groups, const Kernels& kernels) {
  const auto queries = static_cast<size_t>(block_queries(w, kernels));
  const size_t rows = queries * static_cast<size_t>(padded_dim(w.dim));
  ThreadScratch scratch;
  scratch.rows = ActivationRows(kPrivateRows, w.input, groups);
  scratch.exact = Array<float>(static_cast<size_t>(exact_scratch_floats(limits.max_batch_tokens)));
  scratch.panel = Array<uint8_t>(static_cast<size_t>(codes_scratch_bytes(std::max(w.input, w.mlp))));
  scratch.head = Array<float>(static_cast<size_t>(w.dim));
  scratch.tile = Array<float>(KvCache::tile_floats(w.dim));
  scratch.gate = Array<float>(joined_floats(limits.max_batch_tokens, kernels));
  scratch.up = Array<float>(joined_floats(limits.max_batch_tokens, kernels));
  scratch.queries = Array<float>(rows);
  scratch.acc = Array<float>(rows);
  scratch.merged = Array<float>(rows);
  scratch.scores = Array<float>(queries * kTileKeys);
  for (Array<float>* array : {&scratch.max, &scratch.sum, &scratch.merged_max, &scratch.merged_sum})
    *array = Array<float>(queries);
  scratch.first = Array<int32_t>(queries);
  scratch.last = Array<int32_t>(queries);
  return scratch;
}

size_t bytes_of(const ThreadScratch& s) {
  size_t total = s.rows.bytes() + s.panel.bytes() + s.first.bytes() + s.last.bytes();
  for (const Array<float>* array : {&s.exact, &s.head, &s.tile, &s.gate, &s.up, &s.queries, &s.acc, &s.merged,
                                    &s.scores, &s.max, &s.sum, &s.merged_max, &s.merged_sum})
    total += array->bytes();
  return total;
}

}  // namespace

std::unique_ptr<Context> make_context(const models::Plan& plan, const Limits& limits, GroupSet groups,
                                      ThreadPool& pool, const Kernels& kernels) {
  const Widths w = widths_of(plan);
  const auto tokens = static_cast<size_t>(limits.max_batch_tokens);
  auto context = std::make_unique<Context>();
  context->plan = &plan;
  context->kernels = &kernels;
  context->pool = &pool;
  context->exact = limits.exact;
  context->max_tokens = limits.max_batch_tokens;
  context->max_queries = block_queries(w, kernels);
  context->block_tokens = block_queries(w, kernels) / w.queries;
  context->cache = KvCache(plan, limits.n_blocks, {limits.exact, limits.kv_format});
  context->tables.assign(static_cast<size_t>(limits.max_slots),
                         std::vector<std::vector<int32_t>>(plan.kv_groups.size()));
  for (const models::BufferSpec& buffer : plan.buffers)
    context->buffers.emplace_back(tokens * static_cast<size_t>(buffer.width));
  context->rows = ActivationRows(limits.max_batch_tokens, w.input, groups);
  context->joined = ActivationRows(limits.max_batch_tokens, w.mlp, groups);
  context->keys = Array<float>(tokens * static_cast<size_t>(w.kv));
  context->values = Array<float>(tokens * static_cast<size_t>(w.kv));
  context->sum = Array<float>(tokens * static_cast<size_t>(w.sum));
  for (const ops::Rope& rope : plan.ropes) {
    context->cos.emplace_back(tokens * static_cast<size_t>(rope.dims / 2));
    context->sin.emplace_back(tokens * static_cast<size_t>(rope.dims / 2));
  }
  context->partials = Array<float>(static_cast<size_t>(partial_floats(w, limits, pool.size())));
  for (int32_t i = 0; i < pool.size(); ++i)
    context->threads.push_back(thread_scratch(w, limits, groups, kernels));
  context->step.attention.resize(plan.kv_groups.size());
  return context;
}

size_t scratch_bytes(const models::Plan& plan, const Limits& limits, GroupSet groups, int32_t threads,
                     const Kernels& kernels) {
  const Widths w = widths_of(plan);
  const auto tokens = static_cast<size_t>(limits.max_batch_tokens);
  size_t floats = tokens * static_cast<size_t>(2 * w.kv + w.sum) +
                  static_cast<size_t>(partial_floats(w, limits, threads));
  for (const models::BufferSpec& buffer : plan.buffers) floats += tokens * static_cast<size_t>(buffer.width);
  for (const ops::Rope& rope : plan.ropes) floats += tokens * static_cast<size_t>(rope.dims);
  floats += static_cast<size_t>(limits.max_slots) * static_cast<size_t>(plan.vocab);
  // Untouched pages of these arenas take no memory.
  return floats * sizeof(float) + ActivationRows(limits.max_batch_tokens, w.input, groups).bytes() +
         ActivationRows(limits.max_batch_tokens, w.mlp, groups).bytes() +
         static_cast<size_t>(threads) * bytes_of(thread_scratch(w, limits, groups, kernels));
}

}  // namespace penstock::exec::cpu
