#include "exec/cpu/attend_work.h"

#include <map>
#include <set>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace penstock::exec::cpu {
namespace {

/// Every partition that a block sees, once for each KV head.
void expect_cover(const models::KvGroup& group, const std::vector<QueryBlock>& blocks, int32_t threads) {
  const AttendWork work = cut_attention(group, blocks, threads);
  std::map<std::pair<int32_t, int32_t>, std::set<int32_t>> seen;
  std::set<int32_t> partials;
  for (const AttendItem& item : work.items) {
    for (int32_t p = item.first_partition; p < item.last_partition; ++p)
      EXPECT_TRUE(seen[std::pair(item.block, item.head)].insert(p).second);
    if (item.partial >= 0) {
      EXPECT_TRUE(partials.insert(item.partial).second);
    }
  }
  ASSERT_EQ(seen.size(), blocks.size() * static_cast<size_t>(group.kv_heads));
  for (const auto& [key, partitions] : seen) {
    const QueryBlock& block = blocks[static_cast<size_t>(key.first)];
    const int32_t first = first_visible(block.position, group.window) / kPartition;
    const int32_t last = (block.position + block.n_tokens - 1) / kPartition;
    EXPECT_EQ(*partitions.begin(), first);
    EXPECT_EQ(*partitions.rbegin(), last);
    EXPECT_EQ(partitions.size(), static_cast<size_t>(last - first + 1));
  }
  size_t merged = 0;
  for (const AttendMerge& merge : work.merges) merged += static_cast<size_t>(merge.n_partials);
  EXPECT_EQ(merged, partials.size());
  if (!partials.empty()) {
    EXPECT_LT(*partials.rbegin(), max_partials(threads, 8192));
  }
}

TEST(AttendWork, CoversEveryPartitionOnce) {
  for (const int32_t window : {0, 100, 512})
    for (const int32_t kv_heads : {1, 3, 8})
      for (const int32_t threads : {1, 2, 5})
        for (const size_t n : {size_t{1}, size_t{2}, size_t{9}}) {
          const models::KvGroup group = {1, kv_heads, 64, window};
          std::vector<QueryBlock> blocks;
          for (size_t i = 0; i < n; ++i)
            blocks.push_back({static_cast<int32_t>(i), static_cast<int32_t>(i * 8), i % 2 == 0 ? 1 : 8,
                              static_cast<int32_t>(7 + i * 901)});
          expect_cover(group, blocks, threads);
        }
}

TEST(AttendWork, OneLongDecodeKeepsAllThreadsBusy) {
  const AttendWork work = cut_attention({1, 1, 64, 0}, {{0, 0, 1, 4095}}, 2);
  EXPECT_EQ(work.items.size(), 16u);
  EXPECT_EQ(work.merges.size(), 1u);
}

TEST(AttendWork, TheBlocksOfAPromptComeHeadAfterHeadTheLongestFirst) {
  const AttendWork work = cut_attention({1, 2, 64, 0}, {{0, 0, 16, 0}, {0, 16, 16, 16}, {0, 32, 8, 32}}, 1);
  std::vector<std::pair<int32_t, int32_t>> order;
  for (const AttendItem& item : work.items) order.emplace_back(item.head, item.block);
  const std::vector<std::pair<int32_t, int32_t>> expected = {{0, 2}, {0, 1}, {0, 0}, {1, 2}, {1, 1}, {1, 0}};
  EXPECT_EQ(order, expected);
}

}  // namespace
}  // namespace penstock::exec::cpu
