// The promise of the CUDA executor: a sequence's logits have the same bytes alone and among any neighbours,
// and however its prompt is cut, in fast and in exact mode; and fast mode is close to the reference.
#include <cmath>
#include <cstring>
#include <random>
#include <string>

#include <gtest/gtest.h>

#include "exec/cuda/cuda_executor.h"
#include "exec/logits_runner.h"
#include "models/fixture.h"

namespace penstock::models {
namespace {

using Feed = exec::LogitsRunner::Feed;

struct BitsCase {
  std::string fixture;
  bool exact;
};

class CudaBitsTest : public testing::TestWithParam<BitsCase> {
 protected:
  CudaBitsTest()
      : fixture_(std::filesystem::path(PENSTOCK_SOURCE_DIR) / "tests/models" / GetParam().fixture),
        files_(fixture_.open()) {}

  void SetUp() override {
    if (exec::cuda::CudaExecutor::devices() == 0) GTEST_SKIP() << "skipped: no CUDA device";
  }

  std::vector<int32_t> tokens(size_t n, uint32_t seed) const {
    std::mt19937 random(seed);
    std::vector<int32_t> out(n);
    for (int32_t& token : out)
      token = static_cast<int32_t>(random() % static_cast<uint32_t>(fixture_.vocab()));
    return out;
  }

  std::vector<std::vector<float>> run(const std::vector<Feed>& feeds) const {
    exec::cuda::CudaExecutor executor;
    exec::Limits limits{.max_slots = static_cast<int32_t>(feeds.size()),
                        .max_batch_tokens = 2048,
                        .max_context = 1100,
                        .exact = GetParam().exact};
    limits.n_blocks = exec::LogitsRunner::blocks_for(executor, files_.plan, limits);
    executor.load(files_.plan, files_.weights, limits);
    return exec::LogitsRunner(executor, files_.plan, limits).run(feeds);
  }

  static bool same(const std::vector<float>& a, const std::vector<float>& b) {
    return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
  }

  Fixture fixture_;
  ModelFiles files_;
};

TEST_P(CudaBitsTest, AnyCut) {
  const std::vector<int32_t> prompt = tokens(540, 1);
  const std::vector<float> whole = run({{prompt, {1000}}})[0];
  for (const float logit : whole) ASSERT_TRUE(std::isfinite(logit));
  const std::vector<std::vector<int32_t>> cuts = {{1}, {64}, {3, 5, 2, 77, 1, 1, 40}, {255, 1, 1, 2}, {33}};
  for (size_t i = 0; i < cuts.size(); ++i)
    EXPECT_TRUE(same(whole, run({{prompt, cuts[i]}})[0])) << "cut " << i;
}

TEST_P(CudaBitsTest, AnyNeighbours) {
  std::mt19937 random(7);
  for (const size_t batch : {size_t{2}, size_t{5}, size_t{9}, size_t{33}, size_t{64}, size_t{70}}) {
    std::vector<Feed> feeds;
    for (size_t i = 0; i < batch; ++i) {
      Feed feed{tokens(1 + random() % 40, static_cast<uint32_t>(100 + i)), {}};
      for (int c = 0; c < 4; ++c) feed.cuts.push_back(static_cast<int32_t>(1 + random() % 9));
      feed.cuts.push_back(i % 2 == 0 ? 1 : 16);
      feed.generated_from = static_cast<int32_t>(random() % 50);
      feeds.push_back(feed);
    }
    const auto together = run(feeds);
    for (size_t i = 0; i < batch; i += 1 + batch / 8) {
      Feed alone = feeds[i];
      alone.cuts = {1};
      EXPECT_TRUE(same(together[i], run({alone})[0])) << i << " of " << batch;
    }
  }
}

/// An executor must not pass the tests above by giving one answer to everything.
TEST_P(CudaBitsTest, LogitsDependOnTheTokens) {
  const auto logits = run({{tokens(20, 1), {20}}, {tokens(20, 2), {20}}});
  EXPECT_FALSE(same(logits[0], logits[1]));
}

/// float16 activations are 2^-11 apart; the reference's logits have a standard deviation of 1 to 3.
TEST_P(CudaBitsTest, CloseToTheReference) {
  const auto prompts = fixture_.prompts();
  std::vector<Feed> feeds;
  for (const auto& prompt : prompts) feeds.push_back({prompt, {64, 1, 30}});
  const auto logits = run(feeds);
  const base::Json& rows = fixture_.expected()["rows"];
  double error = 0, size = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].contains("variant")) continue;
    const auto at = rows[i]["position"].get<size_t>() * static_cast<size_t>(fixture_.vocab());
    const auto& own = logits[rows[i]["prompt"].get<size_t>()];
    for (size_t c = 0; c < static_cast<size_t>(fixture_.vocab()); ++c) {
      error += std::pow(double{own[at + c]} - fixture_.row(i)[c], 2);
      size += std::pow(double{fixture_.row(i)[c]}, 2);
    }
  }
  EXPECT_GT(size, 0);
  EXPECT_LT(std::sqrt(error / size), GetParam().exact ? 1e-4 : 4e-3);
  RecordProperty("relative_error", std::to_string(std::sqrt(error / size)));
  std::printf("relative error %.2e\n", std::sqrt(error / size));
}

std::vector<BitsCase> cases() {
  std::vector<BitsCase> all;
  for (const auto& folder : Fixture::folders()) all.push_back({folder.filename().string(), false});
  for (const char* name : {"llama", "llama-q4", "gemma3-q4"}) all.push_back({name, true});
  return all;
}

INSTANTIATE_TEST_SUITE_P(All, CudaBitsTest, testing::ValuesIn(cases()), [](const auto& info) {
  std::string name = info.param.fixture + (info.param.exact ? "_exact" : "_fast");
  for (char& c : name)
    if (c == '-') c = '_';
  return name;
});

}  // namespace
}  // namespace penstock::models
