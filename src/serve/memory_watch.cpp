#include "serve/memory_watch.h"

#include <algorithm>
#include <array>
#include <chrono>

#include <fmt/format.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

#include "base/error.h"
#include "base/log.h"

namespace penstock::serve {
namespace {

using pool::MemoryGuard;
using pool::MemoryReading;

constexpr std::chrono::milliseconds kCalmLook{200}, kTenseLook{50};
// Caches are forgotten at most so often: what comes back at once was in use.
constexpr std::chrono::milliseconds kBetweenEvictions{1000};

// Shares of the limit.
constexpr double kRelieveAbove = 0.95, kCalmBelow = 0.92, kTakeBelow = 0.98;

// What a process holds beside its models.
constexpr uint64_t kOwnBytes = uint64_t{64} << 20;

/// More than a share of the limit, and more than was planned for: caches that are full as planned are no
/// reason to forget them.
bool above(uint64_t resident, const MemoryGuard& guard, double share) {
  const auto limit = static_cast<double>(guard.limit_bytes());
  const auto planned = static_cast<double>(guard.planned_bytes() + kOwnBytes);
  return static_cast<double>(resident) > std::max(limit * share, std::min(limit, planned));
}

std::string why(const MemoryReading& now, const MemoryGuard& guard) {
  return fmt::format(
      "[serve.memory] expected at most {} of resident memory (memory_guard {}) and {} free on the machine or "
      "in its control group; got {} and {}",
      pool::megabytes(guard.limit_bytes()), guard.tier(), pool::megabytes(guard.reserve_bytes()),
      pool::megabytes(now.process.resident_bytes.value_or(0)), pool::megabytes(now.machine.available_bytes));
}

}  // namespace

std::string_view name(Pressure pressure) {
  constexpr std::array<std::string_view, 3> kNames = {"calm", "relieving", "refusing"};
  return kNames[static_cast<size_t>(pressure)];
}

Pressure pressure_after(Pressure was, const MemoryReading& now, const MemoryGuard& guard) {
  const uint64_t resident = now.process.resident_bytes.value_or(0);
  const uint64_t left = now.machine.available_bytes, reserve = guard.reserve_bytes();
  const bool is_over = above(resident, guard, 1.0) || left < reserve;
  const bool has_room = !above(resident, guard, kTakeBelow) && left >= reserve + reserve / 4;
  const bool is_tight = above(resident, guard, kRelieveAbove) || left < reserve + reserve / 2;
  const bool is_calm = !above(resident, guard, kCalmBelow) && left >= reserve * 2;
  if (was == Pressure::kCalm) return is_tight ? Pressure::kRelieving : Pressure::kCalm;
  if (is_over || (was == Pressure::kRefusing && !has_room)) return Pressure::kRefusing;
  return is_calm ? Pressure::kCalm : Pressure::kRelieving;
}

MemoryWatch::MemoryWatch(std::shared_ptr<const MemoryGuard> guard, Relief relief)
    : guard_(std::move(guard)), relief_(std::move(relief)) {
  if (guard_ != nullptr) thread_ = std::thread([this] { run(); });
}

MemoryWatch::~MemoryWatch() {
  stop();
}

void MemoryWatch::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
    wake_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

void MemoryWatch::require_room() {
  if (pressure_ != Pressure::kRefusing) return;
  ++refused_;
  std::string message;
  {
    const std::lock_guard lock(mutex_);
    message = why_;
  }
  throw base::Error(base::Code::kUnavailable, message);
}

void MemoryWatch::run() {
  auto next_eviction = std::chrono::steady_clock::now();
  for (;;) {
    const bool is_calm = look();
    if (const auto now = std::chrono::steady_clock::now(); !is_calm && now >= next_eviction) {
      relieve();
      next_eviction = now + kBetweenEvictions;
    }
    std::unique_lock lock(mutex_);
    if (wake_.wait_for(lock, is_calm ? kCalmLook : kTenseLook, [this] { return stopped_; })) return;
  }
}

/// True while nothing is to be done.
bool MemoryWatch::look() {
  const MemoryReading now = guard_->read();
  const Pressure was = pressure_, is = pressure_after(was, now, *guard_);
  if (is == Pressure::kRefusing) {
    const std::lock_guard lock(mutex_);
    why_ = why(now, *guard_);
  }
  if (is != was)
    base::log::warn("memory: {}; {}", name(is),
                    base::Error(base::Code::kUnavailable, why(now, *guard_)).text());
  pressure_ = is;
  return is == Pressure::kCalm;
}

void MemoryWatch::relieve() {
  relief_.forget_caches();
  ++evictions_;
  if (relief_.unload_idle()) ++unloads_;
#ifdef __GLIBC__
  ::malloc_trim(0);
#endif
}

}  // namespace penstock::serve
