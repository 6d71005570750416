// The compute threads of one executor. One job at a time, started and shared by the calling thread, with
// barriers inside it. Idle threads spin for a short while, then sleep. One caller at a time.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

namespace penstock::exec::cpu {

class ThreadPool {
 public:
  /// `threads` counts the caller: threads - 1 are started.
  explicit ThreadPool(int32_t threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int32_t size() const { return size_; }

  /// Threads that share the next or current job: all, or the caller alone.
  int32_t active() const { return active_; }
  void set_alone(bool alone) { active_ = alone ? 1 : size_; }

  /// How long the caller waited for threads that came late in the last job. Short waits are not counted.
  double waited_seconds() const { return waited_seconds_; }

  /// Calls job(thread) on every thread, the caller being thread 0, and returns when all are done. Denormals
  /// are zero meanwhile. A job must not throw unless it has no barrier; the first error is thrown here.
  void run(const std::function<void(int32_t)>& job);

  /// Inside a job: waits until every thread is here.
  void barrier(int32_t thread);

  /// Inside a job: the next of n pieces of work that no thread has taken since the last barrier, -1 when
  /// none is left. A thread's own share comes first and in order, so that it walks through memory; then the
  /// last pieces of threads that are late.
  int32_t take(int32_t thread, int32_t n);

 private:
  struct alignas(64) Flag {
    std::atomic<uint32_t> value{0};
  };

  /// Pieces of one thread's share: taken from the front in the low half, from the back in the high half.
  struct alignas(64) Taken {
    std::atomic<uint64_t> pieces{0};
  };

  Taken& taken(uint32_t phase, int32_t thread);
  void work(int32_t thread);
  void call(int32_t thread);
  uint32_t await_job(uint32_t seen);

  const int32_t size_;
  int32_t active_;
  double waited_seconds_ = 0;
  Flag generation_;  // twice the jobs started; the low bit stops the threads
  Flag done_;        // threads that finished the job
  Flag sleepers_;
  Flag arrived_, phase_;  // of the barrier
  /// Of every thread, twice: phases between barriers take turns, so that a barrier need not empty anything.
  std::vector<Taken> taken_;
  const std::function<void(int32_t)>* job_ = nullptr;
  std::atomic<bool> failed_{false};
  std::exception_ptr error_;
  std::vector<std::thread> threads_;
};

}  // namespace penstock::exec::cpu
