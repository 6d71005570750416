// The bytes of one connection: buffered input, bounded output, one place to wait. Lives on one io thread;
// only wake_from_any_thread() may be called elsewhere. It knows nothing of HTTP.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <utility>  // boost/asio/awaitable.hpp uses std::exchange without it

#include <boost/asio/awaitable.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/steady_timer.hpp>

#include "http/wake_queue.h"

namespace penstock::http {

using Clock = std::chrono::steady_clock;
using Socket = boost::asio::generic::stream_protocol::socket;

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  static constexpr Clock::time_point kForever = Clock::time_point::max();

  /// Reading stops while more than `input_limit_bytes` are unread.
  Connection(Socket socket, size_t input_limit_bytes);
  virtual ~Connection() = default;

  /// Starts to read, and goes on reading in the background, so that a lost peer is noticed at any time.
  void arm_read();
  std::string_view input() const { return std::string_view(input_).substr(input_begin_); }
  bool input_full() const { return input().size() >= input_limit_bytes_; }
  void consume(size_t bytes);
  void discard_input() { consume(input().size()); }

  bool half_closed() const { return half_closed_; }  // the peer sends no more
  bool broken() const { return broken_; }            // reset, failed or closed by us
  bool stopped() const { return stopped_; }          // the server stops
  bool lost() const { return half_closed_ || broken_ || stopped_; }

  /// Ends at the deadline, at new input, when the peer is lost, at wake(); and at times for no reason.
  boost::asio::awaitable<void> wait(Clock::time_point deadline);
  void wake();
  void wake_from_any_thread();
  /// Goes on behind wait(), if something waits, before it returns. Not from within the waiting coroutine;
  /// afterwards the connection may be gone.
  void resume_waiter();

  /// Writes what the kernel takes at once and removes it from `data`. False when the peer is gone.
  bool send_some(std::string_view& data);

  /// Writes all of it. False when the peer is gone or took no byte for `timeout_ms`, and, if `until_lost`, as
  /// soon as it half-closes or interrupted() says so.
  boost::asio::awaitable<bool> send(std::string_view data, int timeout_ms, bool until_lost);

  /// Sends FIN, then reads and drops input for a while: closing with unread input would destroy the last
  /// answer.
  boost::asio::awaitable<void> linger(int timeout_ms);
  void close();
  void close_with_reset();  // drops what the kernel still holds
  void stop();

 protected:
  Socket::executor_type executor() { return socket_.get_executor(); }
  /// True when a send() is not worth going on with.
  virtual bool interrupted() { return false; }

 private:
  /// The suspended coroutine of wait().
  class Waiter {
   public:
    virtual ~Waiter() = default;
    virtual void resume() = 0;
  };
  template <class Handler>
  class HeldWaiter;

  void arm_timer(Clock::time_point deadline);
  void on_readable(const boost::system::error_code& ec);
  void arm_write();
  bool hung_up_behind_input();

  Socket socket_;
  WakeQueue& wake_queue_;
  // Armed for timer_at_ or earlier: a later deadline does not move it, since most waits end long before.
  boost::asio::steady_timer timer_;
  Clock::time_point timer_at_ = kForever;
  std::unique_ptr<Waiter> waiter_;
  const size_t input_limit_bytes_;
  std::string input_;
  size_t input_begin_ = 0;
  bool reading_ = false, writable_ = false;
  bool half_closed_ = false, broken_ = false, stopped_ = false;
};

}  // namespace penstock::http
