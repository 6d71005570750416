// How much memory this process may plan for, and what is planned already: one tier of the machine's memory,
// or of the control group's, and a ledger of the models' reservations. One for a server; thread-safe. What is
// done when memory runs short all the same is serve's (memory_watch.h).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "base/error.h"
#include "pool/memory.h"

namespace penstock::pool {

/// Something does not fit into the memory that may be planned for. The message has the numbers.
class NoMemory : public base::Error {
 public:
  explicit NoMemory(const std::string& message) : base::Error(base::Code::kUnavailable, message) {}
};

struct GuardOptions {
  std::string tier = "balanced";  // "safe", "balanced", "aggressive", "custom"
  std::string limit;              // of custom: "6GiB", "80%"
  std::function<MemoryReading()> read = read_memory;
};

class MemoryGuard : public std::enable_shared_from_this<MemoryGuard> {
 public:
  /// Throws Error(kInvalidRequest) for an unknown tier, for custom without a limit and for a limit without
  /// custom.
  explicit MemoryGuard(GuardOptions options = {});

  /// Held for as long as the memory is.
  using Reservation = std::shared_ptr<const void>;

  /// Throws NoMemory with the numbers.
  Reservation reserve(uint64_t bytes, const std::string& what);

  const std::string& tier() const { return options_.tier; }
  /// Of resident memory.
  uint64_t limit_bytes() const { return limit_bytes_; }
  /// Of the machine's memory, or the control group's: less than this should not be left.
  uint64_t reserve_bytes() const { return reserve_bytes_; }
  uint64_t planned_bytes() const;
  /// That may still be planned for: under the limit, and not taken by other processes meanwhile.
  uint64_t free_bytes() const;
  /// Of the free memory of a device with memory of its own.
  double device_share() const { return device_share_; }

  MemoryReading read() const { return options_.read(); }

 private:
  void give_back(uint64_t bytes);
  uint64_t free_bytes_locked(const MemoryReading& now) const;

  const GuardOptions options_;
  uint64_t base_bytes_ = 0;  // what the program holds without a model
  uint64_t limit_bytes_ = 0, reserve_bytes_ = 0;
  double device_share_ = 0;
  mutable std::mutex mutex_;
  uint64_t planned_bytes_ = 0;
};

/// "6GiB", "512M", "1000000" as bytes; "80%" as so much of `whole`. Throws Error(kInvalidRequest).
uint64_t parse_memory_limit(const std::string& text, uint64_t whole);

/// "1234 MB"
std::string megabytes(uint64_t bytes);

}  // namespace penstock::pool
