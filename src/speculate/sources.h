// Where proposed tokens come from, and what became of them. Plain data.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace penstock::speculate {

enum class Source : uint8_t { kLookup, kModel };
inline constexpr size_t kSources = 2;

/// Which of them may propose. kNgram: lookups that compare 2 to 5 tokens; kSuffix: as many as are equal.
enum class Use : uint8_t { kAuto, kNgram, kSuffix, kModel };

/// Of one source, since the start.
struct SourceStats {
  static constexpr size_t kMostTokens = 16;
  uint64_t drafted = 0, accepted = 0;
  std::array<uint64_t, kMostTokens + 1> steps = {};  // [accepted tokens] steps that checked proposals

  void add(const SourceStats& other) {
    drafted += other.drafted;
    accepted += other.accepted;
    for (size_t i = 0; i < steps.size(); ++i) steps[i] += other.steps[i];
  }
};

}  // namespace penstock::speculate
