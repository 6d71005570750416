#include "speculate/lookup.h"

#include <algorithm>

#include "base/hash.h"

namespace penstock::speculate {

uint64_t Lookup::hash_of_last(size_t n) const {
  return base::fnv1a(std::span(tokens_).last(n));
}

void Lookup::add(std::span<const int32_t> tokens) {
  for (const int32_t token : tokens) {
    // Entered when something follows: the latest tokens themselves are not a place to look.
    for (size_t n = kShortest; n <= std::min(kLongest, tokens_.size()); ++n) {
      places_[n][hash_of_last(n)] = tokens_.size();
    }
    tokens_.push_back(token);
  }
}

std::vector<int32_t> Lookup::propose(int32_t n) const {
  if (n <= 0) return {};
  for (size_t length = std::min(kLongest, tokens_.size()); length >= kShortest; --length) {
    const auto found = places_[length].find(hash_of_last(length));
    if (found == places_[length].end()) continue;
    const size_t place = found->second;
    const auto here = std::span(tokens_).last(length);
    if (!std::ranges::equal(here, std::span(tokens_).subspan(place - length, length))) continue;
    const auto first = tokens_.begin() + static_cast<std::ptrdiff_t>(place);
    return {first, first + std::min<std::ptrdiff_t>(n, tokens_.end() - first)};
  }
  return {};
}

}  // namespace penstock::speculate
