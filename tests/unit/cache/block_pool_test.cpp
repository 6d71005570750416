#include "cache/block_pool.h"

#include <set>

#include <gtest/gtest.h>

#include "base/error.h"

namespace penstock::cache {
namespace {

TEST(BlockPool, GivesEachBlockOnce) {
  BlockPool pool(5);
  std::set<int32_t> taken;
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(taken.insert(pool.take()).second);
  EXPECT_EQ(pool.used(), 5);
  EXPECT_THROW(pool.take(), base::Error);
  pool.release(3);
  EXPECT_EQ(pool.used(), 4);
  EXPECT_EQ(pool.take(), 3);
}

TEST(BlockPool, TheLastUserFrees) {
  BlockPool pool(2);
  const int32_t block = pool.take();
  pool.retain(block);
  pool.release(block);
  EXPECT_EQ(pool.used(), 1);
  pool.release(block);
  EXPECT_EQ(pool.used(), 0);
  EXPECT_THROW(pool.release(block), base::Error);
  EXPECT_THROW(pool.retain(block), base::Error);
  EXPECT_THROW(pool.release(2), base::Error);
  EXPECT_THROW(pool.release(-1), base::Error);
}

TEST(BlockPool, KeptBlocksAreGivenLastTheLongestUnusedFirst) {
  BlockPool pool(3);
  std::vector<int32_t> evicted;
  pool.on_evict = [&](int32_t block) { evicted.push_back(block); };
  const int32_t a = pool.take(), b = pool.take();
  pool.keep(a);
  pool.keep(b);
  pool.release(b);
  pool.release(a);
  EXPECT_EQ(pool.kept(), 2);
  EXPECT_EQ(pool.available(), 3);
  EXPECT_EQ(pool.take(), 2);  // the empty one
  EXPECT_EQ(pool.take(), b);
  EXPECT_EQ(pool.take(), a);
  EXPECT_EQ(evicted, (std::vector<int32_t>{b, a}));
  EXPECT_THROW(pool.take(), base::Error);
}

TEST(BlockPool, AKeptBlockMayBeUsedAgain) {
  BlockPool pool(1);
  const int32_t block = pool.take();
  pool.keep(block);
  pool.release(block);
  pool.retain(block);
  EXPECT_EQ(pool.used(), 1);
  EXPECT_THROW(pool.take(), base::Error);
  pool.release(block);
  EXPECT_EQ(pool.kept(), 1);
  pool.forget(block);
  EXPECT_EQ(pool.kept(), 0);
  EXPECT_EQ(pool.available(), 1);
  EXPECT_THROW(pool.retain(block), base::Error);
  EXPECT_THROW(pool.keep(block), base::Error);
}

}  // namespace
}  // namespace penstock::cache
