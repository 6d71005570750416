#include "serve/telemetry.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include <gtest/gtest.h>

namespace penstock::serve {
namespace {

uint64_t total(const Histogram& histogram) {
  return std::accumulate(histogram.counts.begin(), histogram.counts.end(), uint64_t{0});
}

FinishedRequest finished(const std::string& model, Outcome outcome = Outcome::kStop) {
  FinishedRequest out;
  out.id = model;
  out.model = model;
  out.origin.surface = "openai_chat";
  out.outcome = outcome;
  out.usage = {10, 5, 4};
  out.receipt.queue_ms = 20;
  out.receipt.decode_ms = 300;
  out.first_token_ms = 100;
  out.total_ms = 400;
  return out;
}

TEST(Histogram, a_value_on_a_bound_counts_below_it_and_one_above_all_bounds_last) {
  Histogram h;
  h.observe(0);
  h.observe(Histogram::kBounds[0]);
  h.observe(Histogram::kBounds[3]);
  h.observe(Histogram::kBounds[3] * 1.0001);
  h.observe(Histogram::kBounds.back());
  h.observe(1e9, 2);
  EXPECT_EQ(h.counts[0], 2u);
  EXPECT_EQ(h.counts[3], 1u);
  EXPECT_EQ(h.counts[4], 1u);
  EXPECT_EQ(h.counts[Histogram::kBounds.size() - 1], 1u);
  EXPECT_EQ(h.counts.back(), 2u);
  EXPECT_EQ(h.count, 7u);
  EXPECT_EQ(total(h), h.count);
  EXPECT_GT(h.sum, 2e9);
}

TEST(Histogram, bounds_rise) {
  EXPECT_TRUE(std::is_sorted(Histogram::kBounds.begin(), Histogram::kBounds.end(), std::less_equal<>()));
}

TEST(Histogram, several_at_once_and_sums_of_histograms_are_as_if_each_was_observed) {
  Histogram one, many, sum;
  for (int i = 0; i < 3; ++i) one.observe(0.25);
  many.observe(0.25, 3);
  EXPECT_EQ(one.counts, many.counts);
  EXPECT_EQ(one.sum, many.sum);
  sum.add(one);
  sum.add(many);
  EXPECT_EQ(sum.count, 6u);
  EXPECT_EQ(total(sum), 6u);
  EXPECT_DOUBLE_EQ(sum.sum, 1.5);
}

TEST(Telemetry, requests_with_the_same_labels_share_a_series) {
  Telemetry telemetry;
  Histogram gaps;
  gaps.observe(0.075, 4);
  telemetry.end(finished("m"), gaps);
  telemetry.end(finished("m"), gaps);
  telemetry.end(finished("m", Outcome::kLength), {});
  telemetry.end(finished("other model"), {});
  const auto all = telemetry.series();
  ASSERT_EQ(all.size(), 3u);
  const Series& series = all.at({"m", "openai_chat", Outcome::kStop});
  EXPECT_EQ(series.whole.count, 2u);
  EXPECT_DOUBLE_EQ(series.whole.sum, 0.8);
  EXPECT_DOUBLE_EQ(series.queue.sum, 0.04);
  EXPECT_DOUBLE_EQ(series.first_token.sum, 0.2);
  EXPECT_DOUBLE_EQ(series.per_token.sum, 2 * 0.3 / 4) << "the tokens behind the first";
  EXPECT_EQ(series.inter_token.count, 8u);
  EXPECT_EQ(series.prompt_tokens, 20u);
  EXPECT_EQ(series.cached_tokens + series.completion_tokens, 2u * (5 + 4));
}

TEST(Telemetry, what_had_no_first_token_has_no_times_of_one) {
  Telemetry telemetry;
  FinishedRequest refused = finished("", Outcome::kRefused);
  refused.first_token_ms.reset();
  telemetry.end(refused, {});
  FinishedRequest short_one = finished("m");
  short_one.usage.completion_tokens = 1;
  telemetry.end(short_one, {});
  const auto all = telemetry.series();
  const Series& none = all.at({"", "openai_chat", Outcome::kRefused});
  EXPECT_EQ(none.whole.count, 1u);
  EXPECT_EQ(none.queue.count + none.first_token.count + none.per_token.count, 0u);
  const Series& one = all.at({"m", "openai_chat", Outcome::kStop});
  EXPECT_EQ(one.first_token.count, 1u);
  EXPECT_EQ(one.per_token.count, 0u) << "nothing lies between one token";
}

TEST(Telemetry, labels_and_receipts_are_bounded) {
  Telemetry telemetry;
  for (size_t i = 0; i < Telemetry::kModels + 10; ++i) telemetry.end(finished(std::to_string(i)), {});
  telemetry.end(finished("0"), {});
  const auto all = telemetry.series();
  EXPECT_EQ(all.size(), Telemetry::kModels + 1);
  EXPECT_EQ(all.at({"other", "openai_chat", Outcome::kStop}).whole.count, 10u);
  EXPECT_EQ(all.at({"0", "openai_chat", Outcome::kStop}).whole.count, 2u) << "it keeps its own";
  const auto last = telemetry.last();
  ASSERT_EQ(last.size(), Telemetry::kReceipts);
  EXPECT_EQ(last.front().id, "0");
  EXPECT_EQ(last[1].id, std::to_string(Telemetry::kModels + 9)) << "the newest first";
  EXPECT_GT(last.front().ended_ms, 0);
}

}  // namespace
}  // namespace penstock::serve
