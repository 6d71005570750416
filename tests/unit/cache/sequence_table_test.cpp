#include "cache/sequence_table.h"

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include <gtest/gtest.h>

namespace penstock::cache {
namespace {

Groups make_groups(int32_t block_tokens, std::vector<std::pair<int32_t, int32_t>> window_and_blocks) {
  Groups groups{block_tokens, {}};
  for (const auto& [window, blocks] : window_and_blocks) groups.list.push_back({window, BlockPool(blocks)});
  return groups;
}

TEST(SequenceTable, WindowGroupsNeedWindowAndStepOnly) {
  const Groups groups = make_groups(16, {{0, 100}, {32, 100}});
  EXPECT_EQ(groups.blocks_needed(1000, 64), (std::vector<int32_t>{63, 7}));
  EXPECT_EQ(groups.blocks_needed(17, 64), (std::vector<int32_t>{2, 2}));
  EXPECT_EQ(groups.blocks_needed(1, 64), (std::vector<int32_t>{1, 1}));
}

TEST(SequenceTable, BeginsWithBlocksOfOthersAndGivesThemBack) {
  Groups groups = make_groups(16, {{0, 10}, {32, 10}});
  SequenceTable first, second;
  std::vector<TableChange> changes;
  first.open(groups);
  first.grow(64, changes);
  changes.clear();
  second.open(groups);
  second.adopt(std::vector<BlockRun>{{0, {first.block(0, 0), first.block(0, 1), first.block(0, 2)}},
                                     {1, {first.block(1, 1), first.block(1, 2)}}},
               changes);
  ASSERT_EQ(changes.size(), 5u);
  EXPECT_EQ(changes[3].group, 1);
  EXPECT_EQ(changes[3].index, 1);
  EXPECT_EQ(second.missing(49), 1);
  EXPECT_EQ(first.own(0), 1);
  EXPECT_EQ(second.own(1), 0);
  second.grow(80, changes);
  EXPECT_EQ(second.block(0, 3) == first.block(0, 3), false);
  EXPECT_EQ(second.released_by(1, 64), 0) << "the other sequence still uses it";
  first.close();
  EXPECT_EQ(second.released_by(1, 64), 1);
  EXPECT_EQ(groups.list[0].pool.used(), 5);
  second.close();
  EXPECT_EQ(groups.list[0].pool.used(), 0);
  EXPECT_EQ(groups.list[1].pool.used(), 0);
}

/// Random steps of several sequences: every position that a token sees is covered by a block of its own, no
/// more are held than was foretold, and nothing is left at the end.
TEST(SequenceTable, CoversWhatEachTokenSees) {
  std::mt19937 rng(5);
  const auto integer = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(rng); };
  for (int round = 0; round < 300; ++round) {
    const int32_t block = integer(1, 20), window = integer(1, 60), step = integer(1, 50);
    Groups groups = make_groups(block, {{0, 700}, {window, 700}});
    struct Run {
      SequenceTable table;
      int32_t positions = 0, at = 0;
      std::map<std::pair<int32_t, int32_t>, int32_t> view;  // (group, index) -> block
    };
    std::vector<Run> runs(3);
    for (Run& run : runs) {
      run.positions = integer(1, 200);
      run.table.open(groups);
    }
    for (int i = 0; i < 60; ++i) {
      Run& run = runs[static_cast<size_t>(integer(0, 2))];
      const int32_t n = std::min(integer(1, step), run.positions - run.at);
      if (n == 0) continue;
      std::vector<TableChange> changes;
      run.table.shrink(run.at, changes);
      run.table.grow(run.at + n, changes);
      const std::vector<int32_t> needed = groups.blocks_needed(run.positions, step);
      for (size_t g = 0; g < 2; ++g) ASSERT_LE(run.table.held(g), needed[g]);
      for (const TableChange& c : changes) run.view[{c.group, c.index}] = c.block;
      for (int32_t p = run.at; p < run.at + n; ++p) {
        for (int32_t q = 0; q <= p; ++q) {
          ASSERT_GE(run.view.at({0, q / block}), 0);
          if (q > p - window) {
            ASSERT_GE(run.view.at({1, q / block}), 0) << "window " << window << " position " << p;
          }
        }
      }
      run.at += n;
      for (int32_t g = 0; g < 2; ++g) {
        std::set<int32_t> seen;
        for (const Run& r : runs) {
          for (const auto& [key, held] : r.view) {
            if (key.first == g && held >= 0) {
              ASSERT_TRUE(seen.insert(held).second) << "a block used twice";
            }
          }
        }
      }
    }
    runs.clear();
    for (const Group& group : groups.list) {
      EXPECT_EQ(group.pool.used(), 0);
    }
  }
}

}  // namespace
}  // namespace penstock::cache
