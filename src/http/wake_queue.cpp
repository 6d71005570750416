#include "http/wake_queue.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include <boost/asio/post.hpp>

#include "http/connection.h"

namespace penstock::http {
namespace {

constexpr size_t kAtOnce = 64;  // then reads, timers and new connections have their turn

}  // namespace

boost::asio::execution_context::id WakeQueue::id;

void WakeQueue::add(std::shared_ptr<Connection> connection) {
  const std::lock_guard lock(mutex_);
  woken_.push_back(std::move(connection));
  if (!std::exchange(posted_, true)) post();
}

void WakeQueue::post() {
  boost::asio::post(context_, [this] { run(); });
}

void WakeQueue::run() {
  std::vector<std::shared_ptr<Connection>> now;
  {
    const std::lock_guard lock(mutex_);
    if (woken_.size() <= kAtOnce) {
      now.swap(woken_);
    } else {
      const auto end = woken_.begin() + kAtOnce;
      now.assign(std::make_move_iterator(woken_.begin()), std::make_move_iterator(end));
      woken_.erase(woken_.begin(), end);
    }
    posted_ = !woken_.empty();
    if (posted_) post();
  }
  for (const auto& connection : now) connection->resume_waiter();
}

}  // namespace penstock::http
