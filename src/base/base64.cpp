#include "base/base64.h"

#include <cstdint>

namespace penstock::base {

std::string base64(std::span<const std::byte> bytes) {
  constexpr char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t at = 0; at < bytes.size(); at += 3) {
    const size_t n = bytes.size() - at < 3 ? bytes.size() - at : 3;
    uint32_t three = 0;
    for (size_t i = 0; i < 3; ++i) three = three << 8 | (i < n ? static_cast<uint32_t>(bytes[at + i]) : 0);
    for (size_t i = 0; i < 4; ++i) out += i <= n ? kDigits[three >> (18 - 6 * i) & 63] : '=';
  }
  return out;
}

}  // namespace penstock::base
