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

TEST(BlockPool, ReservationsAreKept) {
  BlockPool pool(4);
  EXPECT_TRUE(pool.reserve(3));
  EXPECT_FALSE(pool.reserve(2));
  EXPECT_EQ(pool.unreserved(), 1);
  EXPECT_TRUE(pool.reserve(1));
  pool.unreserve(4);
  EXPECT_TRUE(pool.reserve(4));
}

}  // namespace
}  // namespace penstock::cache
