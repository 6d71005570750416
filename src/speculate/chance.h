// How likely a proposed token is drawn, from those that were: of a whole engine, and of one sequence on top.
// Plain data.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace penstock::speculate {

/// The latest `kMemory` tries weigh most.
struct Chance {
  static constexpr double kMemory = 200;
  double tries = 0, hits = 0;

  void note(int32_t tried, int32_t hit) {
    const double fades = 1 - std::min(1.0, tried / kMemory);
    tries = tries * fades + tried;
    hits = hits * fades + hit;
  }
  /// `weight`: tries that `before` counts for.
  double of(double before, double weight) const { return (hits + weight * before) / (tries + weight); }
};

/// Those of a lookup, by the length of the match: a token that was drawn makes it longer for the next.
class LookupChances {
 public:
  Chance& at(int32_t length) { return chances_[bucket(length)]; }
  const Chance& at(int32_t length) const { return chances_[bucket(length)]; }

  /// Before anything was seen.
  static double first_guess(int32_t length) { return kGuesses[bucket(length)]; }

 private:
  static constexpr std::array<int32_t, 7> kUpTo = {2, 3, 4, 6, 10, 16, 32};
  static constexpr std::array<double, 8> kGuesses = {0.3, 0.5, 0.6, 0.75, 0.85, 0.9, 0.92, 0.95};
  static size_t bucket(int32_t length) {
    return static_cast<size_t>(std::lower_bound(kUpTo.begin(), kUpTo.end(), length) - kUpTo.begin());
  }

  std::array<Chance, kGuesses.size()> chances_;
};

}  // namespace penstock::speculate
