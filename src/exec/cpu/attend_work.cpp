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
  for (int32_t b = static_cast<int32_t>(blocks.size()) - 1; b >= 0; --b) {
    const QueryBlock& block = blocks[static_cast<size_t>(b)];
    const int32_t first = first_visible(block.position, group.window) / kPartition;
    const int32_t last = (block.end - 1) / kPartition + 1;
    for (int32_t head = 0; head < group.kv_heads; ++head) {
      if (!split || block.n_tokens > 1 || last - first == 1) {
        work.items.push_back({b, head, first, last, -1});
        continue;
      }
      work.merges.push_back({b, head, partials, last - first});
      for (int32_t p = first; p < last; ++p) work.items.push_back({b, head, p, p + 1, partials++});
    }
  }
  return work;
}

}  // namespace penstock::exec::cpu
