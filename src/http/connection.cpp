#include "http/connection.h"

#include <algorithm>
#include <array>
#include <utility>

#include <boost/asio/buffer.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <fcntl.h>
#include <poll.h>

namespace penstock::http {
namespace net = boost::asio;
using boost::system::error_code;

namespace {

constexpr auto kHangUpPoll = std::chrono::milliseconds(200);

}  // namespace

template <class Handler>
class Connection::HeldWaiter : public Waiter {
 public:
  explicit HeldWaiter(Handler handler) : handler_(std::move(handler)) {}
  void resume() override { handler_(); }

 private:
  Handler handler_;
};

Connection::Connection(Socket socket, size_t input_limit_bytes)
    : socket_(std::move(socket)),
      wake_queue_(net::use_service<WakeQueue>(socket_.get_executor().context())),
      timer_(socket_.get_executor()),
      input_limit_bytes_(input_limit_bytes) {
  error_code ec;
  socket_.non_blocking(true, ec);
  broken_ = static_cast<bool>(ec);
  // A child process must not hold the connection open.
  ::fcntl(socket_.native_handle(), F_SETFD, FD_CLOEXEC);
}

void Connection::arm_read() {
  if (reading_ || lost() || input_full()) return;
  reading_ = true;
  socket_.async_wait(Socket::wait_read,
                     [self = shared_from_this()](const error_code& ec) { self->on_readable(ec); });
}

void Connection::on_readable(const error_code& wait_error) {
  reading_ = false;
  if (wait_error || lost()) return;
  thread_local std::array<char, 64 << 10> scratch;
  error_code ec;
  const size_t bytes = socket_.read_some(net::buffer(scratch), ec);
  if (!ec) {
    input_.append(scratch.data(), bytes);
  } else if (ec == net::error::eof) {
    half_closed_ = true;
  } else if (ec != net::error::would_block && ec != net::error::interrupted) {
    broken_ = true;
  }
  arm_read();
  wake();
}

void Connection::consume(size_t bytes) {
  input_begin_ += bytes;
  if (input_begin_ == input_.size()) {
    input_.clear();
    input_begin_ = 0;
  } else if (input_begin_ > input_.size() / 2) {
    input_.erase(0, input_begin_);
    input_begin_ = 0;
  }
  arm_read();
}

/// While the input is full nothing is read, and an end of input behind it shows only here.
bool Connection::hung_up_behind_input() {
#ifdef POLLRDHUP
  pollfd entry{socket_.native_handle(), POLLRDHUP, 0};
  return ::poll(&entry, 1, 0) > 0 && (entry.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
#else
  return false;
#endif
}

net::awaitable<void> Connection::wait(Clock::time_point deadline) {
  const bool blind = !reading_ && !lost();
  if (blind) {
    if (hung_up_behind_input()) {
      half_closed_ = true;
      co_return;
    }
    const auto next_look = Clock::now() + kHangUpPoll;
    deadline = std::min(deadline, next_look);
  }
  arm_timer(deadline);
  auto hold = [this](auto handler) {
    waiter_ = std::make_unique<HeldWaiter<decltype(handler)>>(std::move(handler));
  };
  co_await net::async_initiate<const net::use_awaitable_t<>&, void()>(hold, net::use_awaitable);
}

void Connection::arm_timer(Clock::time_point deadline) {
  if (deadline >= timer_at_) return;
  timer_at_ = deadline;
  timer_.expires_at(deadline);
  timer_.async_wait([weak = weak_from_this()](const error_code& ec) {
    const auto self = weak.lock();
    if (!self || ec == net::error::operation_aborted) return;
    self->timer_at_ = kForever;
    self->resume_waiter();
  });
}

void Connection::resume_waiter() {
  if (const auto waiter = std::move(waiter_)) waiter->resume();
}

void Connection::wake() {
  if (!waiter_) return;
  net::post(socket_.get_executor(), [waiter = std::move(waiter_)] { waiter->resume(); });
}

void Connection::wake_from_any_thread() {
  if (auto self = weak_from_this().lock()) wake_queue_.add(std::move(self));
}

void Connection::arm_write() {
  writable_ = false;
  socket_.async_wait(Socket::wait_write, [self = shared_from_this()](const error_code&) {
    self->writable_ = true;
    self->wake();
  });
}

bool Connection::send_some(std::string_view& data) {
  while (!data.empty()) {
    if (broken_ || stopped_) return false;
    error_code ec;
    const size_t bytes = socket_.write_some(net::buffer(data.data(), data.size()), ec);
    if (!ec) {
      data.remove_prefix(bytes);
      continue;
    }
    if (ec == net::error::interrupted) continue;
    if (ec == net::error::would_block) return true;
    broken_ = true;
    return false;
  }
  return true;
}

net::awaitable<bool> Connection::send(std::string_view data, int timeout_ms, bool until_lost) {
  while (!data.empty()) {
    if (!send_some(data)) co_return false;
    if (data.empty()) break;
    arm_write();
    const auto deadline = Clock::now() + std::chrono::milliseconds(timeout_ms);
    while (!writable_) {
      if (broken_ || stopped_ || Clock::now() >= deadline) co_return false;
      if (until_lost && (half_closed_ || interrupted())) co_return false;
      co_await wait(deadline);
    }
  }
  co_return true;
}

net::awaitable<void> Connection::linger(int timeout_ms) {
  error_code ec;
  socket_.shutdown(Socket::shutdown_send, ec);
  const auto deadline = Clock::now() + std::chrono::milliseconds(timeout_ms);
  while (!lost() && Clock::now() < deadline) {
    discard_input();
    co_await wait(deadline);
  }
}

void Connection::close() {
  broken_ = true;
  error_code ec;
  socket_.close(ec);
}

void Connection::close_with_reset() {
  error_code ec;
  socket_.set_option(net::socket_base::linger(true, 0), ec);
  close();
}

void Connection::stop() {
  stopped_ = true;
  wake();
}

}  // namespace penstock::http
