#include "base/bounded_queue.h"

#include <thread>

#include <gtest/gtest.h>

namespace penstock::base {
namespace {

TEST(BoundedQueue, RefusesWhenFull) {
  BoundedQueue<int> queue(2);
  EXPECT_TRUE(queue.try_push(1));
  EXPECT_TRUE(queue.try_push(2));
  EXPECT_FALSE(queue.try_push(3));
  EXPECT_TRUE(queue.push_always(4));
  EXPECT_EQ(queue.size(), 3u);
  EXPECT_EQ(queue.try_pop(), 1);
}

TEST(BoundedQueue, CloseWakesTheConsumerAfterTheLastItem) {
  BoundedQueue<int> queue(2);
  EXPECT_TRUE(queue.try_push(7));
  std::thread closer([&] { queue.close(); });
  EXPECT_EQ(queue.pop(), 7);
  EXPECT_EQ(queue.pop(), std::nullopt);
  closer.join();
  EXPECT_FALSE(queue.try_push(1));
}

}  // namespace
}  // namespace penstock::base
