#include "serve/lifecycle.h"

#include <atomic>
#include <future>

#include <gtest/gtest.h>

#include "serve/service_time.h"

namespace penstock::serve {
namespace {

struct Server {
  std::atomic<uint64_t> running = 0;
  std::atomic<int> released = 0;
  Lifecycle lifecycle{[this] { return running.load(); }, [this] { ++released; }};

  std::future<void> drain(int64_t timeout_ms = 0) { return settle(&Lifecycle::drain, timeout_ms); }
  std::future<void> suspend(int64_t timeout_ms = 0) { return settle(&Lifecycle::suspend, timeout_ms); }

 private:
  std::future<void> settle(void (Lifecycle::*way)(int64_t, Lifecycle::Callback), int64_t timeout_ms) {
    auto done = std::make_shared<std::promise<void>>();
    (lifecycle.*way)(timeout_ms, [done] { done->set_value(); });
    return done->get_future();
  }
};

bool is_done(const std::future<void>& future, int ms = 20000) {
  return future.wait_for(std::chrono::milliseconds(ms)) == std::future_status::ready;
}

TEST(Lifecycle, a_drain_waits_for_what_runs) {
  Server s;
  s.running = 1;
  const auto done = s.drain();
  EXPECT_EQ(s.lifecycle.state(), State::kDraining);
  EXPECT_FALSE(is_done(done, 50));
  s.running = 0;
  ASSERT_TRUE(is_done(done));
  EXPECT_EQ(s.lifecycle.state(), State::kDrained);
  EXPECT_EQ(s.released, 0);
  EXPECT_TRUE(is_done(s.drain(), 0)) << "it is there already";
}

TEST(Lifecycle, a_suspended_server_has_released_what_it_can_once_nothing_ran) {
  Server s;
  s.running = 2;
  const auto done = s.suspend();
  EXPECT_FALSE(is_done(done, 50));
  EXPECT_EQ(s.released, 0) << "not under what runs";
  s.running = 0;
  ASSERT_TRUE(is_done(done));
  EXPECT_EQ(s.lifecycle.state(), State::kSuspended);
  EXPECT_EQ(s.released, 1);
  s.lifecycle.quiesce();
  EXPECT_EQ(s.lifecycle.state(), State::kSuspended);
  s.lifecycle.resume();
  EXPECT_EQ(s.lifecycle.state(), State::kRunning);
}

TEST(Lifecycle, a_drain_does_not_undo_a_suspension) {
  Server s;
  s.running = 1;
  const auto suspended = s.suspend();
  const auto drained = s.drain();
  EXPECT_EQ(s.lifecycle.state(), State::kSuspending);
  s.running = 0;
  EXPECT_TRUE(is_done(suspended));
  EXPECT_TRUE(is_done(drained));
  EXPECT_EQ(s.lifecycle.state(), State::kSuspended);
}

TEST(Lifecycle, a_wait_ends_with_its_time_and_the_drain_goes_on) {
  Server s;
  s.running = 1;
  ASSERT_TRUE(is_done(s.drain(20)));
  EXPECT_EQ(s.lifecycle.state(), State::kDraining);
  s.running = 0;
  while (s.lifecycle.state() != State::kDrained) std::this_thread::yield();
}

TEST(Lifecycle, other_commands_end_a_wait) {
  Server s;
  s.running = 1;
  const auto resumed = s.drain();
  s.lifecycle.resume();
  ASSERT_TRUE(is_done(resumed));
  EXPECT_EQ(s.lifecycle.state(), State::kRunning);
  const auto quiesced = s.suspend();
  s.lifecycle.quiesce();
  ASSERT_TRUE(is_done(quiesced));
  EXPECT_EQ(s.lifecycle.state(), State::kQuiesced);
}

TEST(Lifecycle, a_stop_stays) {
  Server s;
  s.running = 1;
  const auto done = s.drain();
  s.lifecycle.stop();
  ASSERT_TRUE(is_done(done));
  s.lifecycle.resume();
  EXPECT_EQ(s.lifecycle.state(), State::kStopping);
  EXPECT_TRUE(is_done(s.suspend(), 0));
}

TEST(ServiceTime, the_time_to_retry_is_the_queue_times_the_mean_in_places) {
  ServiceTime time;
  EXPECT_EQ(time.mean_ms(), 0);
  for (int i = 0; i < 5; ++i) time.add(4000);
  EXPECT_EQ(time.mean_ms(), 4000);
  time.add(5000);
  EXPECT_EQ(time.mean_ms(), 4100) << "the newest counts for a tenth";
  EXPECT_EQ(retry_after_seconds(0, 0, 0), 1) << "at least a second";
  EXPECT_EQ(retry_after_seconds(4, 1, 2000), 10);
  EXPECT_EQ(retry_after_seconds(8, 4, 2100), 5) << "9 * 2.1 / 4, rounded up";
  EXPECT_EQ(retry_after_seconds(256, 4, 60000), 60) << "at most a minute";
}

}  // namespace
}  // namespace penstock::serve
