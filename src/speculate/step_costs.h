// What a step of n tokens costs beside one of a single token, from the steps that were measured. Widths that
// were not measured of late keep their share when the machine becomes slower or faster, and slowly go back to
// the first guess, so what looked expensive is tried again. Pure; given measured times.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace penstock::speculate {

class StepCosts {
 public:
  /// `for_each_more`: what every further token costs until it is measured, in steps of one token.
  explicit StepCosts(double for_each_more = 0.25);

  /// A step of `tokens` took `ms`, prompts apart.
  void note(int32_t tokens, double ms);

  /// In steps of one token; from the widths around it where it was not measured.
  double of(int32_t tokens) const { return raw(tokens) / ms_[0]; }

  /// What a step of one token takes now; 0 until a step was measured.
  double ms() const { return is_known_ ? ms_[0] : 0; }

 private:
  static constexpr std::array<int32_t, 9> kWidths = {1, 2, 3, 5, 9, 17, 33, 65, 129};

  double guess(size_t knot) const { return 1 + for_each_more_ * (kWidths[knot] - 1); }
  double raw(int32_t tokens) const;
  void scale_others(size_t measured, double change);
  void fill();

  double for_each_more_;
  bool is_known_ = false;
  std::array<double, kWidths.size()> ms_;  // of a step of each width
  std::array<bool, kWidths.size()> is_measured_ = {};
  std::array<int32_t, kWidths.size()> age_ = {};  // steps of other widths since it was measured
};

}  // namespace penstock::speculate
