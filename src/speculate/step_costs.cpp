#include "speculate/step_costs.h"

#include <algorithm>
#include <cstdlib>

namespace penstock::speculate {
namespace {

constexpr double kShare = 0.25;     // of the newest step
constexpr double kOutlier = 3;      // times what was expected: no more is believed of one step
constexpr int32_t kStale = 2;       // steps after which a width follows the machine's speed
constexpr double kForgets = 0.005;  // of the way back to the guess, at each step of other widths

}  // namespace

StepCosts::StepCosts(double for_each_more) : for_each_more_(for_each_more) {
  for (size_t i = 0; i < kWidths.size(); ++i) ms_[i] = guess(i);
}

double StepCosts::raw(int32_t tokens) const {
  size_t knot = 0;
  while (knot + 2 < kWidths.size() && kWidths[knot + 1] <= tokens) ++knot;
  const double share =
      static_cast<double>(std::max(1, tokens) - kWidths[knot]) / (kWidths[knot + 1] - kWidths[knot]);
  return ms_[knot] + (ms_[knot + 1] - ms_[knot]) * share;
}

void StepCosts::note(int32_t tokens, double ms) {
  if (tokens < 1 || ms <= 0) return;
  if (!is_known_) {
    const double unit = ms / raw(tokens);
    for (double& known : ms_) known *= unit;
    is_known_ = true;
  }
  size_t nearest = 0;
  for (size_t i = 1; i < kWidths.size(); ++i)
    if (std::abs(kWidths[i] - tokens) < std::abs(kWidths[nearest] - tokens)) nearest = i;
  const double there = ms * ms_[nearest] / raw(tokens);
  double& known = ms_[nearest];
  const double change = std::clamp(there / known, 1 / kOutlier, kOutlier);
  known = is_measured_[nearest] ? known * (1 + kShare * (change - 1)) : there;
  if (is_measured_[nearest]) scale_others(nearest, 1 + kShare * (change - 1));
  is_measured_[nearest] = true;
  age_[nearest] = 0;
  fill();
}

void StepCosts::scale_others(size_t measured, double change) {
  for (size_t i = 0; i < kWidths.size(); ++i) {
    if (i == measured || !is_measured_[i] || ++age_[i] <= kStale) continue;
    ms_[i] *= change;
    if (i > 0) ms_[i] += kForgets * (ms_[0] * guess(i) - ms_[i]);
  }
}

/// Widths that were never measured: between two that were on the line, beyond them as guessed.
void StepCosts::fill() {
  size_t below = kWidths.size();
  for (size_t i = 0; i < kWidths.size(); ++i) {
    if (is_measured_[i]) {
      if (below < kWidths.size()) ms_[i] = std::max(ms_[i], ms_[below]);  // more tokens are never cheaper
      below = i;
      continue;
    }
    size_t above = i + 1;
    while (above < kWidths.size() && !is_measured_[above]) ++above;
    if (below == kWidths.size()) {
      ms_[i] = ms_[above] * guess(i) / guess(above);
    } else if (above == kWidths.size()) {
      ms_[i] = ms_[below] * guess(i) / guess(below);
    } else {
      const double share =
          static_cast<double>(kWidths[i] - kWidths[below]) / (kWidths[above] - kWidths[below]);
      ms_[i] = ms_[below] + std::max(0.0, ms_[above] - ms_[below]) * share;
    }
  }
}

}  // namespace penstock::speculate
