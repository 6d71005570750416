#include "exec/cpu/thread_pool.h"

#include <chrono>
#include <utility>

#include "exec/cpu/processor.h"

namespace penstock::exec::cpu {

namespace {

constexpr uint32_t kStop = 1, kJob = 2;          // the low bit, so that a count that wraps never sets it
constexpr int kSpinsBeforeYield = 4000;          // about 40 us: longer than any wait between healthy threads
constexpr std::chrono::microseconds kIdle{100};  // spinning between jobs before sleep

inline void relax() {
#ifdef __x86_64__
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// Spins until ready(); gives the processor away when the wait is long, as when a thread lost its core.
/// Returns the seconds of a long wait.
template <class Ready>
double spin_until(Ready ready) {
  for (int spins = 0; spins < kSpinsBeforeYield; ++spins) {
    if (ready()) return 0;
    relax();
  }
  const auto start = std::chrono::steady_clock::now();
  while (!ready()) std::this_thread::yield();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

ThreadPool::ThreadPool(int32_t threads)
    : size_(threads), active_(threads), taken_(2 * static_cast<size_t>(threads)) {
  for (int32_t i = 1; i < threads; ++i) threads_.emplace_back([this, i] { work(i); });
}

ThreadPool::~ThreadPool() {
  generation_.value.fetch_or(kStop);
  generation_.value.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void ThreadPool::run(const std::function<void(int32_t)>& job) {
  const DenormalScope scope(Denormals::kZero);
  job_ = &job;
  failed_.store(false, std::memory_order_relaxed);
  waited_seconds_ = 0;
  for (Taken& taken : taken_) taken.pieces.store(0, std::memory_order_relaxed);
  if (active_ == 1) {
    job(0);
    return;
  }
  done_.value.store(0, std::memory_order_relaxed);
  generation_.value.fetch_add(kJob);
  if (sleepers_.value.load() > 0) generation_.value.notify_all();
  call(0);
  const auto others = static_cast<uint32_t>(size_ - 1);
  waited_seconds_ += spin_until([&] { return done_.value.load(std::memory_order_acquire) == others; });
  job_ = nullptr;
  if (failed_.load()) {
    const std::exception_ptr error = std::exchange(error_, nullptr);
    std::rethrow_exception(error);
  }
}

void ThreadPool::call(int32_t thread) {
  try {
    (*job_)(thread);
  } catch (...) {
    if (!failed_.exchange(true)) error_ = std::current_exception();
  }
}

void ThreadPool::work(int32_t thread) {
  const DenormalScope scope(Denormals::kZero);
  uint32_t seen = 0;
  while (true) {
    seen = await_job(seen);
    if ((seen & kStop) != 0) return;
    call(thread);
    done_.value.fetch_add(1, std::memory_order_acq_rel);
  }
}

uint32_t ThreadPool::await_job(uint32_t seen) {
  const auto start = std::chrono::steady_clock::now();
  for (int spins = 1;; ++spins) {
    if (const uint32_t now = generation_.value.load(std::memory_order_acquire); now != seen) return now;
    relax();
    if (spins % 64 == 0 && std::chrono::steady_clock::now() - start > kIdle) break;
  }
  // run() raises the generation before it reads sleepers_; here it is the other way round, so a wake-up
  // cannot be missed.
  sleepers_.value.fetch_add(1);
  uint32_t now;
  while ((now = generation_.value.load()) == seen) generation_.value.wait(seen);
  sleepers_.value.fetch_sub(1);
  return now;
}

void ThreadPool::barrier(int32_t thread) {
  const uint32_t phase = phase_.value.load(std::memory_order_relaxed);
  if (active_ == 1) {
    phase_.value.store(phase + 1, std::memory_order_relaxed);
  } else if (arrived_.value.fetch_add(1, std::memory_order_acq_rel) + 1 == static_cast<uint32_t>(size_)) {
    arrived_.value.store(0, std::memory_order_relaxed);
    phase_.value.store(phase + 1, std::memory_order_release);
  } else {
    const double waited = spin_until([&] { return phase_.value.load(std::memory_order_acquire) != phase; });
    if (thread == 0) waited_seconds_ += waited;
  }
  taken(phase, thread).pieces.store(0, std::memory_order_relaxed);  // until the phase after the next
}

ThreadPool::Taken& ThreadPool::taken(uint32_t phase, int32_t thread) {
  return taken_[static_cast<size_t>(phase % 2) * static_cast<size_t>(size_) + static_cast<size_t>(thread)];
}

int32_t ThreadPool::take(int32_t thread, int32_t n) {
  constexpr uint64_t kFront = 1, kBack = uint64_t{1} << 32;
  const int64_t threads = active_;
  const uint32_t phase = phase_.value.load(std::memory_order_relaxed);
  for (int64_t i = 0; i < threads; ++i) {
    const int64_t owner = (thread + i) % threads;
    const int64_t first = n * owner / threads, last = n * (owner + 1) / threads;
    std::atomic<uint64_t>& pieces = taken(phase, static_cast<int32_t>(owner)).pieces;
    uint64_t seen = pieces.load(std::memory_order_relaxed);
    while (true) {
      const auto front = static_cast<int64_t>(seen % kBack), back = static_cast<int64_t>(seen / kBack);
      if (first + front + back >= last) break;
      if (pieces.compare_exchange_weak(seen, seen + (i == 0 ? kFront : kBack), std::memory_order_relaxed))
        return static_cast<int32_t>(i == 0 ? first + front : last - 1 - back);
    }
  }
  return -1;
}

}  // namespace penstock::exec::cpu
