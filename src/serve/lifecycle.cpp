#include "serve/lifecycle.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

namespace penstock::serve {
namespace {

constexpr std::chrono::milliseconds kLook{5};  // how often it is seen whether something still runs

bool is_on_the_way(State state) {
  return state == State::kDraining || state == State::kSuspending;
}

}  // namespace

std::string_view name(State state) {
  constexpr std::array<std::string_view, 7> kNames = {"running",    "quiesced",  "draining", "drained",
                                                      "suspending", "suspended", "stopping"};
  return kNames[static_cast<size_t>(state)];
}

Lifecycle::Lifecycle(std::function<uint64_t()> running, Callback release)
    : running_(std::move(running)), release_(std::move(release)), thread_([this] { run(); }) {}

Lifecycle::~Lifecycle() {
  stop();
}

State Lifecycle::state() const {
  const std::lock_guard lock(mutex_);
  return state_;
}

void Lifecycle::quiesce() {
  const std::lock_guard lock(mutex_);
  if (state_ == State::kRunning || is_on_the_way(state_)) state_ = State::kQuiesced;
  wake_.notify_all();
}

void Lifecycle::resume() {
  const std::lock_guard lock(mutex_);
  if (state_ != State::kStopping) state_ = State::kRunning;
  wake_.notify_all();
}

void Lifecycle::begin_stop() {
  const std::lock_guard lock(mutex_);
  state_ = State::kStopping;
  wake_.notify_all();
}

void Lifecycle::stop() {
  begin_stop();
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
    wake_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

void Lifecycle::settle(State way, int64_t timeout_ms, Callback done) {
  {
    const std::lock_guard lock(mutex_);
    const bool is_there =
        state_ == State::kSuspended || (state_ == State::kDrained && way == State::kDraining);
    if (!stopped_ && state_ != State::kStopping && !is_there) {
      // A drain does not undo a suspension that is under way.
      if (state_ != State::kSuspending) state_ = way;
      const auto until =
          timeout_ms == 0 ? Clock::time_point::max() : Clock::now() + std::chrono::milliseconds(timeout_ms);
      waiters_.push_back({way, until, std::move(done)});
      wake_.notify_all();
      return;
    }
  }
  done();
}

void Lifecycle::arrive_locked() {
  if (!is_on_the_way(state_) || running_() > 0) return;
  if (state_ == State::kSuspending) release_();
  state_ = state_ == State::kSuspending ? State::kSuspended : State::kDrained;
}

/// Those whose wait is over: nothing is under way any more, or their time is.
std::vector<Lifecycle::Waiter> Lifecycle::take_served_locked() {
  const bool nothing_moves = !is_on_the_way(state_) || stopped_;
  const auto now = Clock::now();
  const auto first = std::stable_partition(waiters_.begin(), waiters_.end(), [&](const Waiter& waiter) {
    return !nothing_moves && waiter.until > now;
  });
  std::vector<Waiter> served(std::make_move_iterator(first), std::make_move_iterator(waiters_.end()));
  waiters_.erase(first, waiters_.end());
  return served;
}

void Lifecycle::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    arrive_locked();
    std::vector<Waiter> served = take_served_locked();
    if (!served.empty()) {
      lock.unlock();
      for (const Waiter& waiter : served) waiter.done();
      served.clear();
      lock.lock();
      continue;
    }
    if (stopped_) return;
    if (is_on_the_way(state_)) {
      wake_.wait_for(lock, kLook);
    } else {
      wake_.wait(lock);
    }
  }
}

}  // namespace penstock::serve
