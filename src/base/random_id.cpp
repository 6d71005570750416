#include "base/random_id.h"

#include <cstdint>
#include <random>

namespace penstock::base {

/// From the system's own source each time: who knows one id must not be able to tell another.
std::string random_id(std::string_view prefix) {
  static thread_local std::random_device source;
  constexpr char kHex[] = "0123456789abcdef";
  std::string id(prefix);
  for (int word = 0; word < 3; ++word) {
    uint32_t bits = source();
    for (int digit = 0; digit < 8; ++digit, bits >>= 4) id += kHex[bits & 15];
  }
  return id;
}

}  // namespace penstock::base
