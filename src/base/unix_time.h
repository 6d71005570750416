// The time of the wall clock, for what people and files are told. Any thread.
#pragma once

#include <chrono>
#include <cstdint>

namespace penstock::base {

/// Milliseconds since 1970.
inline int64_t unix_ms() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
}

inline int64_t unix_seconds() {
  return unix_ms() / 1000;
}

}  // namespace penstock::base
