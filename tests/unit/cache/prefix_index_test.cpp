#include "cache/prefix_index.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <random>

#include <gtest/gtest.h>

namespace penstock::cache {
namespace {

constexpr int32_t kBlock = 4;
constexpr PrefixKey kRoot{1, 2};

/// Groups, an index over them, and sequences that compute and end at once.
struct Cache {
  explicit Cache(std::vector<std::pair<int32_t, int32_t>> window_and_blocks) {
    groups.block_tokens = kBlock;
    for (const auto& [window, blocks] : window_and_blocks) groups.list.push_back({window, BlockPool(blocks)});
    index.emplace(groups);
  }

  PrefixMatch find(std::span<const int32_t> tokens, PrefixKey root = kRoot) const {
    return index->find(root, tokens, static_cast<int32_t>(tokens.size()), true);
  }

  /// Computes `tokens` from what is found of them; returns what was found.
  int32_t run(std::span<const int32_t> tokens, PrefixKey root = kRoot) {
    const PrefixMatch match = find(tokens, root);
    SequenceTable table;
    std::vector<TableChange> changes;
    table.open(groups);
    table.adopt(match.runs, changes);
    const auto n = static_cast<int32_t>(tokens.size());
    PrefixCursor cursor{match.key, match.n_blocks};
    for (int32_t at = match.n_tokens; at < n; ++at) {
      table.shrink(at, changes);
      table.grow(at + 1, changes);
      index->enter(cursor, tokens, at + 1, table);
    }
    index->enter_tail(cursor, tokens, n, table);
    return match.n_tokens;
  }

  Groups groups;
  std::optional<PrefixIndex> index;
};

std::vector<int32_t> counting(int32_t n, int32_t from = 0) {
  std::vector<int32_t> tokens(static_cast<size_t>(n));
  std::iota(tokens.begin(), tokens.end(), from);
  return tokens;
}

TEST(PrefixIndex, FindsTheLongestBeginning) {
  Cache cache({{0, 100}});
  EXPECT_EQ(cache.run(counting(22)), 0);
  EXPECT_EQ(cache.find(counting(22)).n_tokens, 22) << "five blocks and the front of the sixth";
  EXPECT_EQ(cache.find(counting(22)).tail_tokens, 2);
  EXPECT_EQ(cache.find(counting(19)).n_tokens, 19) << "a whole block serves for its front";
  std::vector<int32_t> other = counting(22);
  other[9] = 77;
  EXPECT_EQ(cache.find(other).n_tokens, 9);
  EXPECT_EQ(cache.find(other).n_blocks, 2);
  other[0] = 77;
  EXPECT_EQ(cache.find(other).n_tokens, 0);
  EXPECT_EQ(cache.index->find(kRoot, counting(22), 22, false).n_tokens, 20);
  EXPECT_EQ(cache.index->find(kRoot, counting(22), 7, true).n_tokens, 7);
}

/// PC-04: other servers hashed the low byte of an id.
TEST(PrefixIndex, PC_04_TheWholeIdCounts) {
  Cache cache({{0, 100}});
  cache.run(std::vector<int32_t>{65, 66, 67, 68});
  EXPECT_EQ(cache.find(std::vector<int32_t>{321, 66, 67, 68}).n_tokens, 0);
  EXPECT_EQ(cache.find(std::vector<int32_t>{65, 66, 67, 68 + 65536}).n_tokens, 3);
}

TEST(PrefixIndex, RootsShareNothing) {
  Cache cache({{0, 100}});
  cache.run(counting(16));
  EXPECT_EQ(cache.find(counting(16), {1, 3}).n_tokens, 0);
  EXPECT_EQ(cache.find(counting(16), {2, 2}).n_tokens, 0);
  EXPECT_EQ(cache.find(counting(16)).n_tokens, 16);
}

/// PC-02: behind a window's edge the beginning alone is of no use.
TEST(PrefixIndex, PC_02_AWindowNeedsItsOwnLastBlocks) {
  Cache cache({{0, 100}, {6, 100}});
  cache.run(counting(40));
  const PrefixMatch match = cache.find(counting(40));
  EXPECT_EQ(match.n_tokens, 40);
  EXPECT_EQ(match.runs[0].blocks.size(), 10u);
  EXPECT_EQ(match.runs[1].first, 8);
  EXPECT_EQ(match.runs[1].blocks.size(), 2u);
  while (cache.groups.list[1].pool.kept() > 2) cache.groups.list[1].pool.take();
  EXPECT_EQ(cache.find(counting(40)).n_tokens, 40) << "the last two are evicted last";
  EXPECT_EQ(cache.find(counting(24)).n_tokens, 0) << "what a token at 24 sees is gone";
}

TEST(PrefixIndex, EvictionTakesTheEndsFirst) {
  Cache cache({{0, 6}});
  cache.run(counting(16));
  EXPECT_EQ(cache.groups.list[0].pool.kept(), 4);
  cache.run(counting(12, 100));  // takes two empty ones and evicts one
  EXPECT_EQ(cache.find(counting(16)).n_tokens, 12);
  EXPECT_EQ(cache.find(counting(12, 100)).n_tokens, 12);
  EXPECT_EQ(cache.index->stats().evicted, 1u);
  EXPECT_EQ(cache.index->stats().entries, 6u);
}

TEST(PrefixIndex, ClearForgetsAll) {
  Cache cache({{0, 20}, {8, 20}});
  cache.run(counting(30));
  SequenceTable live;
  std::vector<TableChange> changes;
  live.open(cache.groups);
  live.adopt(cache.find(counting(16)).runs, changes);
  cache.index->clear();
  EXPECT_EQ(cache.find(counting(30)).n_tokens, 0);
  EXPECT_EQ(cache.index->stats().entries, 0u);
  EXPECT_EQ(cache.groups.list[0].pool.kept(), 0);
  EXPECT_EQ(cache.groups.list[0].pool.used(), 4) << "a user keeps what it has";
  live.close();
  EXPECT_EQ(cache.groups.list[0].pool.used(), 0);
}

/// Whatever is found was entered, and nothing is lost or used twice, under random use with few blocks.
TEST(PrefixIndex, RandomUseFindsOnlyWhatWasComputed) {
  std::mt19937 rng(7);
  const auto integer = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(rng); };
  Cache cache({{0, 40}, {9, 25}});
  std::vector<std::vector<int32_t>> known;
  uint64_t found = 0;
  for (int i = 0; i < 3000; ++i) {
    std::vector<int32_t> tokens;
    if (!known.empty() && integer(0, 2) > 0) {
      tokens = known[static_cast<size_t>(integer(0, static_cast<int>(known.size()) - 1))];
      tokens.resize(static_cast<size_t>(integer(1, static_cast<int>(tokens.size()))));
    }
    while (static_cast<int>(tokens.size()) < integer(1, 70)) tokens.push_back(integer(0, 2));
    const PrefixMatch match = cache.find(tokens);
    const std::span<const int32_t> front(tokens.data(), static_cast<size_t>(match.n_tokens));
    const bool is_known =
        match.n_tokens == 0 || std::ranges::any_of(known, [&](const std::vector<int32_t>& k) {
          return k.size() >= front.size() && std::equal(front.begin(), front.end(), k.begin());
        });
    ASSERT_TRUE(is_known);
    found += static_cast<uint64_t>(cache.run(tokens));
    known.push_back(tokens);
    for (const Group& group : cache.groups.list) ASSERT_EQ(group.pool.used(), 0);
    if (integer(0, 200) == 0) {
      cache.index->clear();
      known.clear();
    }
  }
  EXPECT_GT(found, 3000u);
}

}  // namespace
}  // namespace penstock::cache
