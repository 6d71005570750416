// Proposes tokens from a sequence's own text: what followed the last time that its latest tokens stood there.
// Pure.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

namespace penstock::speculate {

class Lookup {
 public:
  /// Appends what the sequence has so far or has gained.
  void add(std::span<const int32_t> tokens);

  size_t size() const { return tokens_.size(); }

  /// At most `n` tokens that may come next; none where the latest ones are new. The longest match of 2 to 5
  /// tokens wins, and of those the latest place.
  std::vector<int32_t> propose(int32_t n) const;

 private:
  static constexpr size_t kShortest = 2, kLongest = 5;
  uint64_t hash_of_last(size_t n) const;

  std::vector<int32_t> tokens_;
  std::array<std::unordered_map<uint64_t, size_t>, kLongest + 1>
      places_;  // [length] hash: behind its last place
};

}  // namespace penstock::speculate
