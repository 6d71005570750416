#include "pool/memory_guard.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>

#include <fmt/format.h>

namespace penstock::pool {
namespace {

using base::Code;
using base::Error;

struct Tier {
  std::string_view name;
  double machine_share;  // of what is available when the program starts
  double device_share;   // of a device's free memory; the rest is for graphs and others on the device
};
constexpr std::array kTiers = {Tier{"safe", 0.5, 0.75}, Tier{"balanced", 0.7, 15.0 / 16},
                               Tier{"aggressive", 0.9, 31.0 / 32}, Tier{"custom", 1.0, 15.0 / 16}};

// The program, its threads, requests on their way.
constexpr uint64_t kOwnBytes = uint64_t{64} << 20;
constexpr uint64_t kReserveShare = 32;  // one part of so many stays free

const Tier& tier_of(const std::string& name) {
  for (const Tier& tier : kTiers)
    if (tier.name == name) return tier;
  throw Error(Code::kInvalidRequest,
              "[pool.memory_guard] expected safe, balanced, aggressive or custom; got " + name,
              "memory_guard");
}

[[noreturn]] void refuse_limit(const std::string& got) {
  throw Error(
      Code::kInvalidRequest,
      "[pool.memory_guard] expected a memory limit such as 6GiB or 80%, with memory_guard custom; got " + got,
      "memory_limit");
}

uint64_t share_of(uint64_t bytes, double share) {
  return static_cast<uint64_t>(static_cast<double>(bytes) * share);
}

/// Factor of "", "B", "K", "KB", "KiB", ...; 0 for another suffix.
double unit_of(std::string_view suffix) {
  if (suffix.empty() || suffix == "B") return 1;
  const size_t power = std::string_view("KMGT").find(suffix.front());
  const std::string_view rest = suffix.substr(1);
  if (power == std::string_view::npos || (!rest.empty() && rest != "B" && rest != "iB")) return 0;
  double unit = 1;
  for (size_t i = 0; i <= power; ++i) unit *= rest == "B" ? 1000 : 1024;
  return unit;
}

}  // namespace

uint64_t parse_memory_limit(const std::string& text, uint64_t whole) {
  double number = 0;
  const char* last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, number);
  const std::string_view suffix(end, static_cast<size_t>(last - end));
  if (error != std::errc{} || !(number > 0)) refuse_limit("'" + text + "'");
  if (suffix == "%") {
    if (number > 100) refuse_limit("'" + text + "'");
    return share_of(whole, number / 100);
  }
  const double unit = unit_of(suffix);
  if (unit == 0 || number * unit >= 1e18) refuse_limit("'" + text + "'");
  return static_cast<uint64_t>(number * unit);
}

std::string megabytes(uint64_t bytes) {
  return fmt::format("{} MB", (bytes + (1 << 19)) >> 20);
}

MemoryGuard::MemoryGuard(GuardOptions options) : options_(std::move(options)) {
  const Tier& tier = tier_of(options_.tier);
  const bool is_custom = tier.name == "custom";
  if (is_custom && options_.limit.empty()) refuse_limit("none");
  if (!is_custom && !options_.limit.empty())
    refuse_limit("'" + options_.limit + "' with memory_guard " + options_.tier);
  const MemoryReading now = read();
  const uint64_t resident = now.process.resident_bytes.value_or(0);
  const uint64_t whole = now.machine.available_bytes + resident;
  base_bytes_ = resident + kOwnBytes;
  limit_bytes_ = is_custom ? parse_memory_limit(options_.limit, whole) : share_of(whole, tier.machine_share);
  device_share_ = tier.device_share;
  if (options_.limit.ends_with('%'))
    device_share_ = static_cast<double>(parse_memory_limit(options_.limit, 10000)) / 10000;
  // On a machine that is nearly full already, less: or nothing could ever be served there.
  reserve_bytes_ = std::min(now.machine.total_bytes / kReserveShare, whole / 8);
}

MemoryGuard::Reservation MemoryGuard::reserve(uint64_t bytes, const std::string& what) {
  const MemoryReading now = read();
  const std::lock_guard lock(mutex_);
  const uint64_t left = free_bytes_locked(now);
  if (bytes > left) {
    throw NoMemory(
        fmt::format("[pool.memory_guard] expected {} for {}; got {} free of the {} that memory_guard "
                    "{} allows, {} of them planned for",
                    megabytes(bytes), what, megabytes(left), megabytes(limit_bytes_), options_.tier,
                    megabytes(planned_bytes_)));
  }
  planned_bytes_ += bytes;
  return {this, [self = shared_from_this(), bytes](const void*) { self->give_back(bytes); }};
}

void MemoryGuard::give_back(uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  planned_bytes_ -= bytes;
}

uint64_t MemoryGuard::planned_bytes() const {
  const std::lock_guard lock(mutex_);
  return planned_bytes_;
}

uint64_t MemoryGuard::free_bytes() const {
  const MemoryReading now = read();
  const std::lock_guard lock(mutex_);
  return free_bytes_locked(now);
}

/// What is planned and not yet touched is in the machine's free memory still.
uint64_t MemoryGuard::free_bytes_locked(const MemoryReading& now) const {
  const uint64_t taken = base_bytes_ + planned_bytes_;
  const uint64_t under_limit = limit_bytes_ > taken ? limit_bytes_ - taken : 0;
  const uint64_t resident = now.process.resident_bytes.value_or(taken);
  const uint64_t promised = taken > resident ? taken - resident : 0;
  const uint64_t machine = now.machine.available_bytes;
  return std::min(under_limit, machine > promised ? machine - promised : 0);
}

}  // namespace penstock::pool
