// Connections that other threads wake share one task of their io thread: none is forgotten, others have their
// turn between, and a wake that comes too late harms nothing.
#include "http/wake_queue.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include "http/connection.h"

namespace penstock::http {
namespace {

namespace net = boost::asio;

/// A connection whose peer says nothing.
class Quiet {
 public:
  explicit Quiet(net::io_context& context) {
    std::array<int, 2> ends{};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data()), 0);
    peer_ = ends[1];
    const net::generic::stream_protocol protocol(AF_UNIX, 0);
    connection = std::make_shared<Connection>(Socket(context, protocol, ends[0]), 1024);
    connection->arm_read();
  }
  Quiet(Quiet&& other) noexcept
      : connection(std::move(other.connection)), peer_(std::exchange(other.peer_, -1)) {}
  ~Quiet() {
    if (peer_ >= 0) ::close(peer_);
  }

  std::shared_ptr<Connection> connection;

 private:
  int peer_;
};

std::vector<Quiet> quiet_ones(net::io_context& context, size_t count) {
  std::vector<Quiet> out;
  out.reserve(count);
  for (size_t i = 0; i < count; ++i) out.emplace_back(context);
  return out;
}

/// Counts the times that each goes on.
void count_wakes(net::io_context& context, const std::vector<Quiet>& all, std::vector<int>& wakes) {
  wakes.assign(all.size(), 0);
  for (size_t i = 0; i < all.size(); ++i) {
    auto loop = [connection = all[i].connection, &count = wakes[i]]() -> net::awaitable<void> {
      while (!connection->stopped()) {
        co_await connection->wait(Connection::kForever);
        ++count;
      }
    };
    net::co_spawn(context, std::move(loop), net::detached);
  }
  context.poll();  // all of them wait now
}

TEST(WakeQueue, each_of_many_goes_on_once_and_others_have_their_turn_between) {
  net::io_context context;
  const auto all = quiet_ones(context, 200);
  std::vector<int> wakes;
  count_wakes(context, all, wakes);
  for (const Quiet& one : all) one.connection->wake_from_any_thread();
  long woken_before_the_other_task = -1;
  net::post(context, [&] { woken_before_the_other_task = std::count(wakes.begin(), wakes.end(), 1); });
  context.poll();
  EXPECT_EQ(std::count(wakes.begin(), wakes.end(), 1), 200);
  EXPECT_EQ(woken_before_the_other_task, 64);
  for (const Quiet& one : all) one.connection->stop();
  context.poll();
}

TEST(WakeQueue, a_wake_that_finds_nobody_waiting_is_dropped_and_the_next_one_counts) {
  net::io_context context;
  const auto all = quiet_ones(context, 1);
  std::vector<int> wakes;
  count_wakes(context, all, wakes);
  for (int i = 0; i < 3; ++i) all[0].connection->wake_from_any_thread();
  context.poll();
  EXPECT_GE(wakes[0], 1);
  const int before = wakes[0];
  all[0].connection->wake_from_any_thread();
  context.poll();
  EXPECT_EQ(wakes[0], before + 1);
  all[0].connection->stop();
  context.poll();
}

TEST(WakeQueue, no_wake_of_other_threads_is_lost) {
  constexpr size_t kThreads = 4, kRounds = 200;
  net::io_context context;
  const auto all = quiet_ones(context, 32);
  std::vector<std::atomic<size_t>> asked(all.size()), seen(all.size());
  for (size_t i = 0; i < all.size(); ++i) {
    // What a handler does: changes something, then wakes; the session looks, then waits.
    auto loop = [connection = all[i].connection, &asked = asked[i],
                 &seen = seen[i]]() -> net::awaitable<void> {
      for (;;) {
        seen = asked.load();
        if (seen == kThreads * kRounds) co_return;
        co_await connection->wait(Connection::kForever);
      }
    };
    net::co_spawn(context, std::move(loop), net::detached);
  }
  auto work = net::make_work_guard(context);
  std::thread io([&] { context.run(); });
  std::vector<std::thread> wakers;
  for (size_t t = 0; t < kThreads; ++t) {
    wakers.emplace_back([&] {
      for (size_t round = 0; round < kRounds; ++round) {
        for (size_t i = 0; i < all.size(); ++i) {
          ++asked[i];
          all[i].connection->wake_from_any_thread();
        }
      }
    });
  }
  for (std::thread& waker : wakers) waker.join();
  for (const Quiet& one : all) net::post(context, [&] { one.connection->close(); });
  work.reset();
  io.join();  // ends when every loop has
  for (const auto& count : seen) EXPECT_EQ(count, kThreads * kRounds);
}

TEST(WakeQueue, what_was_woken_and_never_ran_is_let_go) {
  std::weak_ptr<Connection> left;
  {
    net::io_context context;
    Quiet one(context);
    left = one.connection;
    one.connection->wake_from_any_thread();
    one.connection.reset();
    EXPECT_FALSE(left.expired()) << "the queue holds it";
  }
  EXPECT_TRUE(left.expired());
}

}  // namespace
}  // namespace penstock::http
