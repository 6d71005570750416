// How many tokens to propose for one sequence: more while they are right, none for a while where steps with
// proposals cost more for each token than those without. Given measured times; no clock of its own.
#pragma once

#include <algorithm>
#include <cstdint>

namespace penstock::speculate {

class Policy {
 public:
  explicit Policy(int32_t longest = 0) : longest_(longest) {}

  /// Tokens to propose in the next step. The first steps are plain, to know what they cost.
  int32_t length() const {
    return pause_ > 0 || plain_steps_ < kPlainFirst ? 0 : std::min(length_, longest_);
  }

  /// A step of the sequence ended: it drew `drawn` tokens, of which all but the last were among `proposed`.
  void note(int32_t proposed, int32_t drawn, double ms) {
    if (proposed == 0) {
      ++plain_steps_;
      if (pause_ > 0) --pause_;
      plain_ms_ = mixed(plain_ms_, ms);
      return;
    }
    drafted_ms_ = mixed(drafted_ms_, ms / drawn);
    if (drawn == proposed + 1) length_ = std::min(longest_, length_ * 2);
    if (drawn == 1) length_ = std::max(1, length_ / 2);
    if (drafted_ms_ < plain_ms_) {
      if (drawn > 1) next_pause_ = kFirstPause;
      return;
    }
    pause_ = next_pause_;
    next_pause_ = std::min(kLongestPause, next_pause_ * 2);
    drafted_ms_ = 0;
    length_ = 2;
  }

 private:
  static constexpr int32_t kPlainFirst = 2, kFirstPause = 8, kLongestPause = 128;

  static double mixed(double old, double now) { return old == 0 ? now : old + (now - old) / 4; }

  int32_t longest_;
  int32_t length_ = 4;
  int32_t plain_steps_ = 0, pause_ = 0, next_pause_ = kFirstPause;
  double plain_ms_ = 0, drafted_ms_ = 0;  // for each token drawn, the latest steps weigh most
};

}  // namespace penstock::speculate
