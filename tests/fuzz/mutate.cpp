#include "fuzz/mutate.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/hash.h"

namespace penstock::fuzz {
namespace {

constexpr std::array<uint64_t, 10> kExtremes = {
    0, 1, 0x7f, 0xff, 0xffff, 0x7fffffff, 0xffffffff, 1ull << 32, (1ull << 63) - 1, ~0ull};

}  // namespace

uint64_t Mutator::below(uint64_t bound) {
  return base::splitmix64(state_++) % bound;
}

std::string Mutator::mutate(std::string bytes, const std::string& other) {
  const uint64_t changes = uint64_t{1} << below(4);
  for (uint64_t i = 0; i < changes; ++i) change(bytes, other);
  if (bytes.size() > most_bytes_) bytes.resize(most_bytes_);
  return bytes;
}

/// One, two, four or eight bytes, little-endian: an extreme, or a little more or less than there was. Or the
/// decimal digits that are there.
void Mutator::change_number(std::string& bytes, size_t at) {
  const size_t width = std::min(size_t{1} << below(4), bytes.size() - at);
  uint64_t number = 0;
  std::memcpy(&number, &bytes[at], width);
  number = below(2) == 0 ? kExtremes[below(kExtremes.size())] : number + below(35) - 17;
  const size_t digit = bytes.find_first_of("0123456789", at);
  if (below(3) == 0 && digit != std::string::npos) {
    const size_t end = std::min(bytes.find_first_not_of("0123456789", digit), bytes.size());
    bytes.replace(digit, end - digit, std::to_string(number));
    return;
  }
  std::memcpy(&bytes[at], &number, width);
}

void Mutator::change(std::string& bytes, const std::string& other) {
  if (bytes.empty()) bytes = other.empty() ? "0" : other;
  const size_t at = below(bytes.size());
  const size_t length = std::min<size_t>(1 + below(below(4) == 0 ? 256 : 8), bytes.size() - at);
  switch (below(9)) {
    case 0:
      bytes[at] = static_cast<char>(below(256));
      break;
    case 1:
      bytes[at] = static_cast<char>(bytes[at] ^ (1 << below(8)));
      break;
    case 2:
    case 3:
      change_number(bytes, at);
      break;
    case 4:
      bytes.erase(at, length);
      break;
    case 5:
      bytes.insert(at, bytes.substr(below(bytes.size()), length));
      break;
    case 6:
      if (!words_.empty()) bytes.replace(at, below(2) * length, words_[below(words_.size())]);
      break;
    case 7:
      if (!other.empty()) {
        const size_t from = below(other.size());
        bytes.replace(at, below(2) * length, other.substr(from, 1 + below(other.size() - from)));
      }
      break;
    default:
      if (below(8) == 0)
        bytes.resize(at);
      else
        bytes.insert(at, std::string(length, static_cast<char>(below(256))));
  }
}

}  // namespace penstock::fuzz
