#include "exec/cpu/attend_work.h"

#include <algorithm>

namespace penstock::exec::cpu {

namespace {

constexpr int32_t kItemsPerThread = 4;

}  // namespace

int64_t max_partials(int32_t threads, int32_t max_context) {
  return int64_t{kItemsPerThread} * threads * (max_context / kPartition + 1);
}

AttendWork cut_attention(const models::KvGroup& group, const std::vector<QueryBlock>& blocks,
                         int32_t threads) {
  AttendWork work;
  const auto n_items = static_cast<int64_t>(blocks.size()) * group.kv_heads;
  const bool split = threads > 1 && n_items < int64_t{kItemsPerThread} * threads;
  int32_t partials = 0;
  const auto add = [&](int32_t b, int32_t head) {
    const QueryBlock& block = blocks[static_cast<size_t>(b)];
    const int32_t first = first_visible(block.position, group.window) / kPartition;
    const int32_t last = (block.position + block.n_tokens - 1) / kPartition + 1;
    if (!split || block.n_tokens > 1 || last - first == 1) {
      work.items.push_back({b, head, first, last, -1});
      return;
    }
    work.merges.push_back({b, head, partials, last - first});
    for (int32_t p = first; p < last; ++p) work.items.push_back({b, head, p, p + 1, partials++});
  };
  const auto last_block = static_cast<int32_t>(blocks.size()) - 1;
  // The blocks of a prompt read the same keys: head after head, they stay in a thread's cache.
  const bool prompt = std::ranges::any_of(blocks, [](const QueryBlock& b) { return b.n_tokens > 1; });
  if (prompt) {
    for (int32_t head = 0; head < group.kv_heads; ++head)
      for (int32_t b = last_block; b >= 0; --b) add(b, head);
  } else {
    for (int32_t b = last_block; b >= 0; --b)
      for (int32_t head = 0; head < group.kv_heads; ++head) add(b, head);
  }
  return work;
}

}  // namespace penstock::exec::cpu
