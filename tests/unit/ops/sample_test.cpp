#include "ops/sample.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <random>

#include <gtest/gtest.h>

#include "base/error.h"
#include "ops/elementary.h"

namespace penstock::ops {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

struct Case {
  std::vector<float> logits;
  SampleParams params;
  std::vector<Bias> biases;
  std::vector<TokenCounts> counts;
  int32_t position = 0;
};

std::vector<float> process(const Case& c) {
  std::vector<float> l = c.logits;
  for (const Bias& b : c.biases) l[static_cast<size_t>(b.token)] += b.value;
  for (const TokenCounts& n : c.counts) {
    float& x = l[static_cast<size_t>(n.token)];
    if (n.in_prompt || n.generated > 0) {
      x = x < 0 ? x * c.params.repetition_penalty : x / c.params.repetition_penalty;
    }
    if (n.generated > 0) {
      x -= c.params.presence_penalty + c.params.frequency_penalty * static_cast<float>(n.generated);
    }
  }
  return l;
}

/// Sorts everything; `share` moves the top-p and min-p bounds, to tell cases that rounding decides.
int32_t naive(const Case& c, double share) {
  const std::vector<float> l = process(c);
  std::vector<int32_t> order;
  for (size_t i = 0; i < l.size(); ++i) {
    if (l[i] > -kInf) order.push_back(static_cast<int32_t>(i));
  }
  const auto value = [&](int32_t id) { return l[static_cast<size_t>(id)]; };
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) { return value(a) > value(b); });
  if (c.params.temperature == 0) return order[0];
  if (c.params.top_k > 0 && static_cast<size_t>(c.params.top_k) < order.size()) {
    order.resize(static_cast<size_t>(c.params.top_k));
  }
  const float max = value(order[0]);
  const auto t = [&](int32_t id) { return (value(id) - max) / c.params.temperature; };
  const auto weight = [&](int32_t id) { return std::exp(static_cast<double>(t(id))); };
  double total = 0;
  for (const int32_t id : order) total += weight(id);
  if (c.params.top_p < 1) {
    double sum = 0;
    size_t n = 0;
    while (n < order.size() && (n == 0 || sum < static_cast<double>(c.params.top_p) * total * share)) {
      sum += weight(order[n++]);
    }
    order.resize(n);
  }
  std::erase_if(order, [&](int32_t id) {
    return weight(id) < std::min(1.0, static_cast<double>(c.params.min_p) * share);
  });
  int32_t best = -1;
  float best_key = 0;
  for (const int32_t id : order) {
    const float key = t(id) + gumbel(c.params.seed, c.position, id);
    if (best < 0 || key > best_key || (key == best_key && id < best)) best = id, best_key = key;
  }
  return best;
}

class RandomCase {
 public:
  explicit RandomCase(uint64_t seed) : rng_(seed) {}

  Case make() {
    Case c;
    const auto vocab = static_cast<size_t>(integer(1, integer(0, 1) == 0 ? 40 : 3000));
    const float spread = pick({0.1f, 1.0f, 4.0f, 12.0f});
    const bool ties = integer(0, 2) == 0;
    std::normal_distribution<float> normal(0, spread);
    for (size_t i = 0; i < vocab; ++i) {
      const float x = normal(rng_);
      c.logits.push_back(ties ? std::round(x) : x);
      if (i > 0 && integer(0, 19) == 0) c.logits.back() = -kInf;
    }
    SampleParams& p = c.params;
    p.temperature = pick({0.0f, 0.3f, 0.7f, 1.0f, 1.0f, 2.0f});
    p.top_k = integer(0, 1) == 0 ? 0 : integer(1, static_cast<int32_t>(vocab) + 3);
    p.top_p = pick({1.0f, 1.0f, 0.95f, 0.5f, 0.1f, 0.0f, 0.999f});
    p.min_p = pick({0.0f, 0.0f, 0.05f, 0.3f, 1.0f});
    p.repetition_penalty = pick({1.0f, 1.3f, 0.8f});
    p.presence_penalty = pick({0.0f, 0.5f});
    p.frequency_penalty = pick({0.0f, 0.2f, -0.2f});
    p.seed = rng_();
    c.position = integer(0, 5000);
    for (int i = integer(0, 3); i > 0; --i) c.biases.push_back({token(vocab), normal(rng_)});
    std::map<int32_t, TokenCounts> counts;
    for (int i = integer(0, 8); i > 0; --i) {
      const int32_t id = token(vocab);
      counts[id] = {id, integer(0, 3), integer(0, 1) == 0};
    }
    for (const auto& [id, n] : counts) c.counts.push_back(n);
    return c;
  }

 private:
  int32_t integer(int32_t low, int32_t high) {
    return std::uniform_int_distribution<int32_t>(low, high)(rng_);
  }
  int32_t token(size_t vocab) { return integer(0, static_cast<int32_t>(vocab) - 1); }
  float pick(std::initializer_list<float> values) {
    return values.begin()[integer(0, static_cast<int32_t>(values.size()) - 1)];
  }

  std::mt19937_64 rng_;
};

int32_t token_of(const Case& c) {
  return sample(c.logits, c.params, {c.biases, c.counts, {}}, c.position, 0).token;
}

TEST(Sample, EqualsTheSortedReference) {
  RandomCase random(7);
  int decided_by_rounding = 0;
  for (int i = 0; i < 6000; ++i) {
    const Case c = random.make();
    const int32_t low = naive(c, 1 - 1e-5), high = naive(c, 1 + 1e-5), got = token_of(c);
    if (low == high) {
      ASSERT_EQ(got, low) << "case " << i;
    } else {
      ++decided_by_rounding;
      ASSERT_TRUE(got == low || got == high) << "case " << i;
    }
  }
  EXPECT_LT(decided_by_rounding, 200);
}

TEST(Sample, LogprobsAreOfTheRawLogits) {
  RandomCase random(8);
  for (int i = 0; i < 500; ++i) {
    const Case c = random.make();
    double sum = 0;
    for (const float x : c.logits) sum += std::exp(static_cast<double>(x));
    const Draw draw = sample(c.logits, c.params, {c.biases, c.counts, {}}, c.position, 5);
    const auto expected = [&](int32_t id) {
      return static_cast<double>(c.logits[static_cast<size_t>(id)]) - std::log(sum);
    };
    EXPECT_NEAR(draw.logprob, expected(draw.token), 1e-5);
    std::vector<int32_t> order;
    for (size_t k = 0; k < c.logits.size(); ++k) {
      if (c.logits[k] > -kInf) order.push_back(static_cast<int32_t>(k));
    }
    std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
      return c.logits[static_cast<size_t>(a)] > c.logits[static_cast<size_t>(b)];
    });
    ASSERT_EQ(draw.top.size(), std::min<size_t>(5, order.size()));
    for (size_t k = 0; k < draw.top.size(); ++k) {
      EXPECT_EQ(draw.top[k].token, order[k]);
      EXPECT_NEAR(draw.top[k].logprob, expected(order[k]), 1e-5);
    }
  }
}

/// A mask and minus infinity in the logits are the same, whatever is drawn how; log probabilities are the
/// model's.
TEST(Sample, OnlyWhatTheMaskAllowsIsDrawn) {
  RandomCase random(17);
  std::mt19937_64 rng(18);
  int drawn = 0;
  for (int i = 0; i < 2000; ++i) {
    Case c = random.make();
    std::vector<uint32_t> mask((c.logits.size() + 31) / 32);
    Case masked = c;
    for (size_t k = 0; k < c.logits.size(); ++k) {
      if (rng() % 4 == 0) {
        mask[k / 32] |= uint32_t{1} << (k % 32);
      } else {
        masked.logits[k] = -kInf;
      }
    }
    const bool none = std::ranges::all_of(masked.logits, [](float x) { return x == -kInf; });
    const Draw draw = sample(c.logits, c.params, {c.biases, c.counts, mask}, c.position, 0);
    if (none) {
      EXPECT_EQ(draw.token, -1);
      continue;
    }
    ++drawn;
    EXPECT_EQ(draw.token, sample(masked.logits, c.params, {c.biases, c.counts, {}}, c.position, -1).token);
    double sum = 0;
    for (const float x : c.logits) sum += std::exp(static_cast<double>(x));
    EXPECT_NEAR(draw.logprob, static_cast<double>(c.logits[static_cast<size_t>(draw.token)]) - std::log(sum),
                1e-5);
  }
  EXPECT_GT(drawn, 500);
}

TEST(Sample, FrequenciesFollowTheSoftmax) {
  const std::vector<float> logits = {1.0f, 0.0f, -1.0f, 2.0f, -kInf, 0.5f};
  constexpr int kDraws = 60000;
  std::vector<double> seen(logits.size());
  SampleParams params;
  params.temperature = 0.8f;
  for (int i = 0; i < kDraws; ++i) {
    params.seed = static_cast<uint64_t>(i / 100);
    seen[static_cast<size_t>(sample(logits, params, {}, i % 100, -1).token)] += 1;
  }
  double sum = 0, chi_square = 0;
  for (const float x : logits) sum += std::exp(static_cast<double>(x) / 0.8);
  for (size_t i = 0; i < logits.size(); ++i) {
    const double expected = std::exp(static_cast<double>(logits[i]) / 0.8) / sum * kDraws;
    if (expected > 0) chi_square += (seen[i] - expected) * (seen[i] - expected) / expected;
  }
  EXPECT_EQ(seen[4], 0);
  EXPECT_LT(chi_square, 18.5);  // 99.9 % of four degrees of freedom
}

TEST(Sample, LargeVocabulariesAgreeToo) {
  std::mt19937_64 rng(3);
  for (const float spread : {0.5f, 3.0f}) {
    std::normal_distribution<float> normal(0, spread);
    Case c;
    for (int i = 0; i < 151936; ++i) c.logits.push_back(normal(rng));
    c.params.temperature = 1;
    for (const auto& [k, p] : {std::pair{0, 1.0f}, {0, 0.95f}, {50, 1.0f}, {50, 0.9f}, {4000, 0.5f}}) {
      c.params.top_k = k;
      c.params.top_p = p;
      for (c.position = 0; c.position < 4; ++c.position) {
        const int32_t got = token_of(c);
        EXPECT_TRUE(got == naive(c, 1 - 1e-6) || got == naive(c, 1 + 1e-6)) << k << " " << p;
      }
    }
  }
}

TEST(Sample, AllEqualLogitsKeepTheFirstIds) {
  Case c;
  c.logits.assign(1000, 0.25f);
  EXPECT_EQ(token_of(c), 0);
  c.params.temperature = 1;
  c.params.top_k = 3;
  for (c.position = 0; c.position < 100; ++c.position) EXPECT_LT(token_of(c), 3);
  c.params.top_k = 0;
  c.params.top_p = 0.01f;
  for (c.position = 0; c.position < 100; ++c.position) EXPECT_LT(token_of(c), 10);
}

TEST(Sample, TinyTemperatureIsArgmax) {
  Case c;
  c.logits = {1.0f, 3.0f, 2.999f, -5.0f};
  c.params.temperature = 1e-30f;
  for (c.position = 0; c.position < 50; ++c.position) EXPECT_EQ(token_of(c), 1);
}

TEST(Sample, RefusesWhatIsNotFinite) {
  Case c;
  const auto code = [&]() -> int {
    try {
      token_of(c);
    } catch (const base::Error& e) {
      return static_cast<int>(e.code());
    }
    return -1;
  };
  const int internal = static_cast<int>(base::Code::kInternal);
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), kInf}) {
    for (const size_t at : {0u, 63u, 64u, 129u}) {
      c.logits.assign(130, 0.5f);
      c.logits[at] = bad;
      EXPECT_EQ(code(), internal) << at;
    }
  }
  c.logits.assign(130, -kInf);
  EXPECT_EQ(code(), internal);
  c.logits[129] = -3;
  EXPECT_EQ(token_of(c), 129);
  c.biases = {{130, 1.0f}};
  EXPECT_EQ(code(), static_cast<int>(base::Code::kInvalidRequest));
  c.biases.clear();
  c.params.temperature = -1;
  EXPECT_EQ(code(), static_cast<int>(base::Code::kInvalidRequest));
}

TEST(Sample, NoiseIsPinned) {
  // A change of these numbers changes what every seed draws.
  EXPECT_NE(gumbel(0, 0, 0), gumbel(1, 0, 0));
  EXPECT_NE(gumbel(0, 0, 0), gumbel(0, 1, 0));
  EXPECT_NE(gumbel(0, 0, 0), gumbel(0, 0, 1));
  EXPECT_FLOAT_EQ(gumbel(0, 0, 0), 0.850917161f);
  EXPECT_FLOAT_EQ(gumbel(42, 17, 31337), 1.77763271f);
}

TEST(Elementary, AgreesWithTheMathLibrary) {
  std::mt19937_64 rng(1);
  std::uniform_real_distribution<double> power(-60, 3);
  for (int i = 0; i < 20000; ++i) {
    const double x = std::exp2(power(rng));
    EXPECT_NEAR(natural_log(x), std::log(x), 4e-15 * std::max(1.0, std::abs(std::log(x))));
    const double near_one = 1 - std::max(x, 0x1p-45) * 0x1p-8;
    EXPECT_NEAR(natural_log(near_one) / std::log(near_one), 1, 1e-14);
    const auto y = static_cast<float>(-x * 8);
    EXPECT_NEAR(static_cast<double>(exp_nonpositive(y)) / std::exp(static_cast<double>(y)), 1, 3e-7);
  }
  EXPECT_EQ(exp_nonpositive(0), 1.0f);
}

}  // namespace
}  // namespace penstock::ops
