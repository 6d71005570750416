#include "speculate/policy.h"

#include <gtest/gtest.h>

namespace penstock::speculate {
namespace {

/// Runs steps in which `right` of the proposed tokens are drawn at most; a token more costs `ms_more` of a
/// plain step. Returns the time that `tokens` tokens took, where plain steps take 1.
double run(Policy& policy, int tokens, int32_t right, double ms_more) {
  double ms = 0;
  for (int drawn = 0; drawn < tokens;) {
    const int32_t proposed = policy.length();
    const int32_t accepted = std::min(proposed, right);
    const double step = 1 + ms_more * proposed;
    policy.note(proposed, accepted + 1, step);
    ms += step;
    drawn += accepted + 1;
  }
  return ms;
}

TEST(Policy, GrowsWhileItIsRight) {
  Policy policy(16);
  const double ms = run(policy, 400, 16, 0.05);
  EXPECT_EQ(policy.length(), 16);
  EXPECT_LT(ms, 400 / 4);
}

TEST(Policy, TurnsItselfOffWhereItLoses) {
  Policy policy(16);
  const double ms = run(policy, 2000, 0, 0.3);
  EXPECT_LT(ms, 2000 * 1.05);
  Policy slow(16);
  EXPECT_LT(run(slow, 2000, 16, 1.1), 2000 * 1.05) << "right, and slower all the same";
}

TEST(Policy, ComesBackWhenItWouldWin) {
  Policy policy(16);
  run(policy, 500, 0, 0.3);
  EXPECT_LT(run(policy, 1000, 16, 0.05), 600);
}

TEST(Policy, WithoutRoomItProposesNothing) {
  Policy policy(0);
  run(policy, 50, 0, 0);
  EXPECT_EQ(policy.length(), 0);
}

}  // namespace
}  // namespace penstock::speculate
