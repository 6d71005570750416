#include "speculate/speculator.h"

#include <random>

#include <gtest/gtest.h>

namespace penstock::speculate {
namespace {

using Tokens = std::vector<int32_t>;

/// Sequences that draw what a text says, under steps of any cost.
class Play {
 public:
  Play(int n_sequences, const Tokens& prompt, int32_t most = 8)
      : speculator_({.max_draft_tokens = most}, nullptr), sequences_(static_cast<size_t>(n_sequences)) {
    for (Sequence& s : sequences_) {
      s.tokens = prompt;
      s.track = Track(Use::kAuto, prompt);
    }
  }

  /// One step: every sequence draws the next of `texts`, and with it what of its proposals is right.
  /// Returns the tokens that were proposed.
  int32_t step(const std::function<int32_t(size_t sequence, size_t position)>& text,
               const std::function<double(int32_t tokens)>& ms) {
    std::vector<Speculator::Candidate> candidates;
    const ops::SampleParams params;
    for (size_t i = 0; i < sequences_.size(); ++i) {
      Sequence& s = sequences_[i];
      candidates.push_back(
          {&s.track, {i + 1, static_cast<int32_t>(i), s.tokens, 1, &params, {}, 100, &s.drafts}});
    }
    speculator_.propose(candidates);
    auto width = static_cast<int32_t>(sequences_.size());
    for (const Sequence& s : sequences_) width += static_cast<int32_t>(s.drafts.size());
    speculator_.note_step(width, ms(width));
    for (size_t i = 0; i < sequences_.size(); ++i) {
      Sequence& s = sequences_[i];
      int32_t accepted = 0;
      for (const int32_t draft : s.drafts) {
        if (draft != text(i, s.tokens.size())) break;
        s.tokens.push_back(draft);
        ++accepted;
      }
      s.tokens.push_back(text(i, s.tokens.size()));
      speculator_.note_draws(s.track, static_cast<int32_t>(s.drafts.size()), accepted, s.tokens);
    }
    return width - static_cast<int32_t>(sequences_.size());
  }

  size_t tokens() const { return sequences_[0].tokens.size(); }
  const SourceStats& stats() const { return speculator_.stats()[static_cast<size_t>(Source::kLookup)]; }

 private:
  struct Sequence {
    Tokens tokens, drafts;
    Track track;
  };
  Speculator speculator_;
  std::vector<Sequence> sequences_;
};

int32_t periodic(size_t, size_t position) {
  return static_cast<int32_t>(position % 20);
}
/// Pairs come again, but what follows them does not.
int32_t treacherous(size_t, size_t position) {
  std::minstd_rand rng(static_cast<uint32_t>(position / 3 * 7919 + 1));
  return position % 3 == 2 ? static_cast<int32_t>(100 + rng() % 1000) : static_cast<int32_t>(position % 3);
}
double flat(int32_t) {
  return 10;
}
double by_token(int32_t tokens) {
  return 10.0 * tokens;
}

TEST(Speculator, FirstFindsOutWhatAPlainStepTakes) {
  Play run(1, Tokens{1, 2, 3, 1, 2, 3, 1, 2});
  EXPECT_EQ(run.step(periodic, flat), 0);
}

TEST(Speculator, ProposesAllThatIsRightWhereTokensAreFree) {
  Play run(1, Tokens{0});
  int32_t last = 0;
  for (int i = 0; i < 60; ++i) last = run.step(periodic, flat);
  EXPECT_EQ(last, 8);
  EXPECT_GT(run.stats().accepted * 100, run.stats().drafted * 95);
}

/// Now and then it looks again whether that still holds, with a token or two.
TEST(Speculator, LosesNothingWhereEveryTokenCostsAStep) {
  Play run(1, Tokens{0});
  for (int i = 0; i < 200; ++i) run.step(periodic, by_token);
  const size_t before = run.tokens();
  int32_t width = 0;
  for (int i = 0; i < 300; ++i) width += 1 + run.step(periodic, by_token);
  EXPECT_LT(width, 1.03 * static_cast<double>(run.tokens() - before));
}

TEST(Speculator, LearnsThatProposalsAreWrong) {
  Play run(1, Tokens{0});
  int32_t proposed = 0;
  for (int i = 0; i < 400; ++i) {
    const int32_t now = run.step(treacherous, [](int32_t tokens) { return 10 + 3.0 * (tokens - 1); });
    if (i >= 200) proposed += now;
  }
  // Of three tokens one is certain (behind the first of a pair), one can be seen to be wrong.
  EXPECT_LT(static_cast<double>(run.stats().drafted - run.stats().accepted), 0.2 * 400);
}

TEST(Speculator, TriesAgainWhenTheTextBecomesRegular) {
  Play run(1, Tokens{0});
  const auto cost = [](int32_t tokens) { return 10 + 2.5 * (tokens - 1); };
  for (int i = 0; i < 200; ++i) run.step(treacherous, cost);
  int32_t proposed = 0;
  for (int i = 0; i < 60; ++i) {
    const int32_t now = run.step(periodic, cost);
    if (i >= 40) proposed += now;
  }
  EXPECT_GT(proposed, 40);
}

/// What pays for one sequence does not where the step is full already.
TEST(Speculator, TheWidthOfTheStepDecides) {
  const auto full_at_eight = [](int32_t tokens) { return tokens <= 8 ? 10.0 : 10.0 + 12.0 * (tokens - 8); };
  Play alone(1, Tokens{0}), crowd(8, Tokens{0});
  int32_t of_one = 0, of_eight = 0;
  for (int i = 0; i < 300; ++i) {
    const int32_t one = alone.step(periodic, full_at_eight), eight = crowd.step(periodic, full_at_eight);
    if (i < 200) continue;
    of_one += one;
    of_eight += eight;
  }
  EXPECT_GT(of_one, 400);
  EXPECT_LT(of_eight, 100);
}

TEST(Speculator, CountsByAcceptedTokens) {
  Play run(3, Tokens{0});
  for (int i = 0; i < 100; ++i) run.step(periodic, flat);
  uint64_t accepted = 0;
  for (size_t n = 0; n < run.stats().steps.size(); ++n) accepted += n * run.stats().steps[n];
  EXPECT_EQ(accepted, run.stats().accepted);
  EXPECT_GT(run.stats().steps[8], 50u);
}

}  // namespace
}  // namespace penstock::speculate
