#include "speculate/step_costs.h"

#include <gtest/gtest.h>

namespace penstock::speculate {
namespace {

void run(StepCosts& costs, int times, double slowdown, double narrow_ms, double wide_ms) {
  for (int i = 0; i < times; ++i) {
    costs.note(1, narrow_ms * slowdown);
    costs.note(9, wide_ms * slowdown);
  }
}

TEST(StepCosts, LearnsWhatWidthsCost) {
  StepCosts costs(0.25);
  EXPECT_EQ(costs.ms(), 0);
  EXPECT_DOUBLE_EQ(costs.of(1), 1);
  EXPECT_DOUBLE_EQ(costs.of(9), 3);
  run(costs, 200, 1, 10, 70);
  EXPECT_NEAR(costs.of(9), 7, 0.5);
  EXPECT_NEAR(costs.ms(), 10, 1.5);
  EXPECT_GT(costs.of(17), costs.of(9));
  EXPECT_LT(costs.of(8), costs.of(9));
  EXPECT_GE(costs.of(500), costs.of(129));
}

TEST(StepCosts, FindsThatTokensAreFree) {
  StepCosts costs(0.5);
  run(costs, 200, 1, 10, 10.5);
  EXPECT_NEAR(costs.of(9), 1.05, 0.02);
  EXPECT_GE(costs.of(9), costs.of(5)) << "never cheaper than fewer";
}

TEST(StepCosts, ASlowMachineIsNoExpensiveWidth) {
  StepCosts costs(0.25);
  run(costs, 100, 1, 10, 30);
  for (int i = 0; i < 50; ++i) costs.note(1, 30);  // three times as slow, and no other width runs meanwhile
  EXPECT_NEAR(costs.of(9), 3, 1.2);
  for (int i = 0; i < 50; ++i) costs.note(1, 10);
  EXPECT_NEAR(costs.of(9), 3, 1.2);
}

TEST(StepCosts, WhatLookedExpensiveIsForgotten) {
  StepCosts costs(0.25);
  run(costs, 20, 1, 10, 100);
  EXPECT_GT(costs.of(9), 8);
  for (int i = 0; i < 1000; ++i) costs.note(1, 10);
  EXPECT_LT(costs.of(9), 4);
}

TEST(StepCosts, OneOutlierChangesLittle) {
  StepCosts costs(0.25);
  run(costs, 100, 1, 10, 30);
  costs.note(9, 5000);
  EXPECT_LT(costs.of(9), 5);
}

}  // namespace
}  // namespace penstock::speculate
