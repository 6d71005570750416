// What an executor remembers of a slot's tokens between steps: the last one drawn, and the counts for the
// penalties. Shared by executors that draw on the host.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "ops/sample.h"

namespace penstock::exec {

class SlotTokens {
 public:
  void reset(std::span<const int32_t> prompt, std::span<const int32_t> generated = {}) {
    counts_.clear();
    index_.clear();
    last_ = -1;
    for (const int32_t token : prompt) entry(token).in_prompt = true;
    for (const int32_t token : generated) drawn(token);
  }

  void drawn(int32_t token) {
    last_ = token;
    entry(token).generated += 1;
  }

  int32_t last() const { return last_; }
  std::span<const ops::TokenCounts> counts() const { return counts_; }

 private:
  ops::TokenCounts& entry(int32_t token) {
    const auto [it, added] = index_.try_emplace(token, counts_.size());
    if (added) counts_.push_back({token, 0, false});
    return counts_[it->second];
  }

  int32_t last_ = -1;
  std::vector<ops::TokenCounts> counts_;
  std::unordered_map<int32_t, size_t> index_;
};

}  // namespace penstock::exec
