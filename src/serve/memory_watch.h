// Watches what the process and its control group hold of memory, and acts before the system does: first what
// can be made again goes, then new requests are refused, until there is room. One thread of its own;
// thread-safe. Plans nothing: pool's guard does.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

#include "pool/memory_guard.h"

namespace penstock::serve {

/// kRelieving: kept blocks and idle models go. kRefusing: new requests are refused, too.
enum class Pressure : uint8_t { kCalm, kRelieving, kRefusing };

std::string_view name(Pressure pressure);

/// What follows from what is held: pure. `was` is the state before. Relief begins below the limit; requests
/// are refused above it, once relief was tried, and taken again when there is room to spare.
Pressure pressure_after(Pressure was, const pool::MemoryReading& now, const pool::MemoryGuard& guard);

class MemoryWatch {
 public:
  /// Called by the watch's thread.
  struct Relief {
    std::function<void()> forget_caches;
    std::function<bool()> unload_idle;  // false: there is none
  };
  /// Since the start.
  struct Counters {
    uint64_t evictions = 0;  // times that the caches were forgotten
    uint64_t unloads = 0;
    uint64_t refused = 0;  // requests
  };

  /// A null guard watches nothing.
  MemoryWatch(std::shared_ptr<const pool::MemoryGuard> guard, Relief relief);
  ~MemoryWatch();  // stop()
  MemoryWatch(const MemoryWatch&) = delete;
  MemoryWatch& operator=(const MemoryWatch&) = delete;

  /// Throws Error(kUnavailable) with the numbers while requests are refused, and counts it.
  void require_room();

  Pressure pressure() const { return pressure_; }
  Counters counters() const { return {evictions_, unloads_, refused_}; }
  const pool::MemoryGuard* guard() const { return guard_.get(); }

  /// Joins the thread. Idempotent.
  void stop();

 private:
  void run();
  bool look();
  void relieve();

  const std::shared_ptr<const pool::MemoryGuard> guard_;
  const Relief relief_;
  std::atomic<Pressure> pressure_ = Pressure::kCalm;
  std::atomic<uint64_t> evictions_ = 0, unloads_ = 0, refused_ = 0;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::string why_;  // of the refusals
  bool stopped_ = false;
  std::thread thread_;
};

}  // namespace penstock::serve
