// Attention over the paged cache.
#include <algorithm>
#include <cstring>
#include <limits>

#include "exec/cpu/attend_work.h"
#include "exec/cpu/operations.h"

namespace penstock::exec::cpu {

namespace {

class AttendOperation final : public CpuOperation {
 public:
  AttendOperation(const ops::Attend& op, const LoadContext& load)
      : op_(op),
        group_(load.plan.kv_layers[static_cast<size_t>(op.kv_layer)].group),
        heads_(op.q_heads / op.kv_heads),
        padded_(padded_dim(op.head_dim)) {}

  void run(Context& context, int32_t thread) const override {
    const AttendWork& work = context.step.attention[static_cast<size_t>(group_)];
    const auto n = static_cast<int32_t>(work.items.size());
    for (int32_t i; (i = context.pool->take(thread, n)) >= 0;)
      run_item(context, thread, work.items[static_cast<size_t>(i)]);
    context.pool->barrier(thread);
    if (work.merges.empty()) return;
    const Range mine = context.share(static_cast<int64_t>(work.merges.size()), thread);
    for (int64_t i = mine.first; i < mine.last; ++i)
      merge(context, thread, work.merges[static_cast<size_t>(i)]);
    context.pool->barrier(thread);
  }

 private:
  /// Floats of one stored partition: for each query max, sum and the weighted values.
  int64_t partial_floats() const { return heads_ * (int64_t{padded_} + 2); }

  Partial stored(const Context& context, int32_t partial, int32_t query) const {
    float* at = context.partials.data() + partial * partial_floats() + query * (padded_ + 2);
    return {at, at + 1, at + 2};
  }

  /// Copies the queries of the item to [n, padded] and empties what they have summed.
  void gather(const Context& context, const QueryBlock& block, int32_t head, ThreadScratch& scratch) const {
    const int64_t width = context.width(op_.in_q);
    const size_t bytes = static_cast<size_t>(op_.head_dim) * sizeof(float);
    float* to = scratch.queries.data();
    for (int32_t token = 0; token < block.n_tokens; ++token) {
      const float* q = context.buffer(op_.in_q) + int64_t{block.first_token + token} * width +
                       int64_t{head} * heads_ * op_.head_dim;
      for (int32_t h = 0; h < heads_; ++h, q += op_.head_dim, to += padded_) {
        std::memcpy(to, q, bytes);
        std::fill(to + op_.head_dim, to + padded_, 0.0f);
      }
    }
    clear(scratch.merged_max, scratch.merged_sum, scratch.merged, block.n_tokens * heads_);
  }

  void clear(const Array<float>& max, const Array<float>& sum, const Array<float>& acc, int32_t n) const {
    std::fill_n(max.data(), n, -std::numeric_limits<float>::infinity());
    std::fill_n(sum.data(), n, 0.0f);
    std::fill_n(acc.data(), int64_t{n} * padded_, 0.0f);
  }

  void run_item(Context& context, int32_t thread, const AttendItem& item) const {
    const QueryBlock& block = context.step.blocks[static_cast<size_t>(item.block)];
    ThreadScratch& scratch = context.threads[static_cast<size_t>(thread)];
    const int32_t n = block.n_tokens * heads_;
    gather(context, block, item.head, scratch);
    for (int32_t p = item.first_partition; p < item.last_partition; ++p) {
      clear(scratch.max, scratch.sum, scratch.acc, n);
      for (int32_t at = p * kPartition; at < (p + 1) * kPartition; at += kTileKeys)
        run_tile(context, scratch, block, item.head, at);
      for (int32_t i = 0; i < n; ++i) {
        const Partial part = {&scratch.max[static_cast<size_t>(i)], &scratch.sum[static_cast<size_t>(i)],
                              scratch.acc.data() + int64_t{i} * padded_};
        if (item.partial >= 0)
          copy(part, stored(context, item.partial, i));
        else
          add(context, part, running(scratch, i));
      }
    }
    if (item.partial < 0)
      for (int32_t i = 0; i < n; ++i) finish(context, block, item.head, i, running(scratch, i));
  }

  void run_tile(const Context& context, ThreadScratch& scratch, const QueryBlock& block, int32_t head,
                int32_t at) const {
    const int32_t n = block.n_tokens * heads_;
    int32_t first = kTileKeys, last = 0;
    for (int32_t token = 0; token < block.n_tokens; ++token) {
      const int32_t position = block.position + token;
      const int32_t from = std::max(0, first_visible(position, op_.window) - at);
      const int32_t to = std::min(kTileKeys, position + 1 - at);
      std::fill_n(scratch.first.data() + token * heads_, heads_, from);
      std::fill_n(scratch.last.data() + token * heads_, heads_, to);
      if (from >= to) continue;
      first = std::min(first, from);
      last = std::max(last, to);
    }
    if (first >= last) return;
    // The next tile of this query block, whoever computes it: most often the same thread, soon.
    const bool more = at + kTileKeys <= block.position;
    const KvCache::Place next = more ? place(context, block, head, at + kTileKeys) : KvCache::Place{};
    const AttendTile tile = context.cache.tile(*context.kernels, place(context, block, head, at),
                                               {first, last}, n, scratch.tile.data(), more ? &next : nullptr);
    context.kernels->attend_tile(
        tile, {scratch.queries.data(), scratch.first.data(), scratch.last.data(), scratch.max.data(),
               scratch.sum.data(), scratch.acc.data(), scratch.scores.data(), n, op_.scale, op_.softcap});
  }

  /// The block of the cache that holds position `at` of the block's sequence.
  KvCache::Place place(const Context& context, const QueryBlock& block, int32_t head, int32_t at) const {
    const auto& table = context.tables[static_cast<size_t>(block.slot)][static_cast<size_t>(group_)];
    return {op_.kv_layer, table[static_cast<size_t>(at / kTileKeys)], head, 0};
  }

  Partial running(const ThreadScratch& scratch, int32_t i) const {
    return {&scratch.merged_max[static_cast<size_t>(i)], &scratch.merged_sum[static_cast<size_t>(i)],
            scratch.merged.data() + int64_t{i} * padded_};
  }

  void copy(const Partial& from, const Partial& to) const {
    *to.max = *from.max;
    *to.sum = *from.sum;
    std::copy_n(from.acc, padded_, to.acc);
  }

  /// A partition in which the query sees nothing has an exact zero for a sum.
  void add(const Context& context, const Partial& next, const Partial& into) const {
    if (*next.sum != 0) context.kernels->merge_partial(next, into, padded_);
  }

  void finish(const Context& context, const QueryBlock& block, int32_t head, int32_t i,
              const Partial& from) const {
    float* out = context.buffer(op_.out_o) +
                 int64_t{block.first_token + i / heads_} * context.width(op_.out_o) +
                 (head * heads_ + i % heads_) * op_.head_dim;
    context.kernels->finish_partial(from, op_.head_dim, out);
  }

  void merge(const Context& context, int32_t thread, const AttendMerge& merge) const {
    const ThreadScratch& scratch = context.threads[static_cast<size_t>(thread)];
    const QueryBlock& block = context.step.blocks[static_cast<size_t>(merge.block)];
    clear(scratch.merged_max, scratch.merged_sum, scratch.merged, heads_);
    for (int32_t i = 0; i < heads_; ++i) {
      for (int32_t p = 0; p < merge.n_partials; ++p)
        add(context, stored(context, merge.partial + p, i), running(scratch, i));
      finish(context, block, merge.head, i, running(scratch, i));
    }
  }

  const ops::Attend op_;
  const int32_t group_;
  const int32_t heads_;  // query heads of a KV head
  const int32_t padded_;
};

}  // namespace

std::unique_ptr<CpuOperation> make_attend(const ops::Attend& op, const LoadContext& load) {
  return std::make_unique<AttendOperation>(op, load);
}

}  // namespace penstock::exec::cpu
