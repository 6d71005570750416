// Whether new requests are taken, and the way there and back: quiesce, drain, suspend, resume, stop.
// Thread-safe; one thread of its own waits for what still runs.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string_view>
#include <thread>
#include <vector>

namespace penstock::serve {

/// Requests are taken in kRunning only. kDrained and kSuspended: nothing runs any more.
enum class State : uint8_t { kRunning, kQuiesced, kDraining, kDrained, kSuspending, kSuspended, kStopping };

/// "running", "quiesced", ...
std::string_view name(State state);

class Lifecycle {
 public:
  using Callback = std::function<void()>;

  /// `running` says how many requests have not ended, `release` gives back what a suspended server does not
  /// need. Both are called by the thread of this object.
  Lifecycle(std::function<uint64_t()> running, Callback release);
  ~Lifecycle();  // stop()
  Lifecycle(const Lifecycle&) = delete;
  Lifecycle& operator=(const Lifecycle&) = delete;

  State state() const;

  void quiesce();

  /// Takes requests again, whatever was under way; does nothing once stopping.
  void resume();

  /// Quiesces and goes to kDrained, or kSuspended, when nothing runs any more. `done` is called once, perhaps
  /// before this returns: when that is so, when `timeout_ms` have passed (it still goes on then; 0: no limit)
  /// or when another command came between.
  void drain(int64_t timeout_ms, Callback done) { settle(State::kDraining, timeout_ms, std::move(done)); }
  void suspend(int64_t timeout_ms, Callback done) { settle(State::kSuspending, timeout_ms, std::move(done)); }

  /// kStopping, which stays.
  void begin_stop();

  /// begin_stop(), and joins the thread. Idempotent; not from a callback.
  void stop();

 private:
  using Clock = std::chrono::steady_clock;
  struct Waiter {
    State way;
    Clock::time_point until;
    Callback done;
  };

  void settle(State way, int64_t timeout_ms, Callback done);
  void run();
  void arrive_locked();
  std::vector<Waiter> take_served_locked();

  const std::function<uint64_t()> running_;
  const Callback release_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  State state_ = State::kRunning;
  std::vector<Waiter> waiters_;
  bool stopped_ = false;
  std::thread thread_;
};

}  // namespace penstock::serve
