// The promise of the CPU executor: a sequence's logits have the same bytes alone and among any neighbours,
// however its prompt is cut and on any number of threads, in fast and in exact mode, in every format of the
// cache.
#include <cstring>
#include <random>
#include <string>

#include <gtest/gtest.h>

#include "exec/cpu/cpu_executor.h"
#include "exec/logits_runner.h"
#include "models/fixture.h"

namespace penstock::models {
namespace {

using Feed = exec::LogitsRunner::Feed;

struct BitsCase {
  std::string fixture;
  bool exact;
  ops::KvFormat kv = ops::KvFormat::kPlain;
};

class CpuBitsTest : public testing::TestWithParam<BitsCase> {
 protected:
  CpuBitsTest()
      : fixture_(std::filesystem::path(PENSTOCK_SOURCE_DIR) / "tests/models" / GetParam().fixture),
        files_(fixture_.open()) {}

  std::vector<int32_t> tokens(size_t n, uint32_t seed) const {
    std::mt19937 random(seed);
    std::vector<int32_t> out(n);
    for (int32_t& token : out)
      token = static_cast<int32_t>(random() % static_cast<uint32_t>(fixture_.vocab()));
    return out;
  }

  std::vector<std::vector<float>> run(const std::vector<Feed>& feeds, int32_t threads,
                                      exec::cpu::Isa isa = exec::cpu::Isa::kBest) const {
    exec::cpu::CpuExecutor executor(isa);
    exec::Limits limits{.max_slots = static_cast<int32_t>(feeds.size()),
                        .max_batch_tokens = 1024,
                        .max_context = 640,
                        .threads = threads,
                        .exact = GetParam().exact,
                        .kv_format = GetParam().kv};
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

TEST_P(CpuBitsTest, AnyCutAndAnyThreads) {
  const std::vector<int32_t> prompt = tokens(330, 1);
  const std::vector<float> whole = run({{prompt, {1000}}}, 1)[0];
  const std::vector<std::vector<int32_t>> cuts = {{1}, {64}, {3, 5, 2, 77, 1, 1, 40}, {255, 1, 1, 2}, {33}};
  for (size_t i = 0; i < cuts.size(); ++i)
    for (const int32_t threads : {1, 2, 3}) {
      if (i != 2 && threads != 2) continue;
      EXPECT_TRUE(same(whole, run({{prompt, cuts[i]}}, threads)[0]))
          << "cut " << i << ", threads " << threads;
    }
}

TEST_P(CpuBitsTest, AnyNeighbours) {
  std::mt19937 random(7);
  for (const size_t batch : {size_t{2}, size_t{5}, size_t{9}, size_t{33}}) {
    std::vector<Feed> feeds;
    for (size_t i = 0; i < batch; ++i) {
      Feed feed{tokens(1 + random() % 40, static_cast<uint32_t>(100 + i)), {}};
      for (int c = 0; c < 4; ++c) feed.cuts.push_back(static_cast<int32_t>(1 + random() % 9));
      feed.cuts.push_back(i % 2 == 0 ? 1 : 16);
      feeds.push_back(feed);
    }
    const auto together = run(feeds, 2);
    for (size_t i = 0; i < batch; i += 1 + batch / 8)
      EXPECT_TRUE(same(together[i], run({{feeds[i].tokens, {1000}}}, 1)[0])) << i << " of " << batch;
  }
}

TEST_P(CpuBitsTest, ScalarKernelsGiveTheSameBytes) {
  const Feed feed = {tokens(70, 3), {64, 1, 3}};
  EXPECT_TRUE(same(run({feed}, 2)[0], run({feed}, 2, exec::cpu::Isa::kScalar)[0]));
}

/// An executor must not pass the tests above by giving one answer to everything.
TEST_P(CpuBitsTest, LogitsDependOnTheTokens) {
  const auto logits = run({{tokens(20, 1), {20}}, {tokens(20, 2), {20}}}, 2);
  EXPECT_FALSE(same(logits[0], logits[1]));
}

std::vector<BitsCase> cases() {
  std::vector<BitsCase> all;
  for (const char* name : {"llama", "llama-q4", "llama-affine3", "llama-affine8", "llama-mxfp4",
                           "llama-mxfp8", "llama-nvfp4", "gemma3-q4", "qwen3-q4"})
    all.push_back({name, false});
  for (const char* name : {"llama", "llama-q4", "llama-affine8", "gemma3-q4"}) all.push_back({name, true});
  for (const auto kv : {ops::KvFormat::kQ8, ops::KvFormat::kQ4, ops::KvFormat::kK8V4}) {
    for (const char* name : {"llama-q4", "gemma3-q4"}) all.push_back({name, false, kv});
    all.push_back({"llama", true, kv});
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(All, CpuBitsTest, testing::ValuesIn(cases()), [](const auto& info) {
  std::string name =
      info.param.fixture + (info.param.exact ? "_exact_" : "_fast_") + ops::name(info.param.kv);
  for (char& c : name)
    if (c == '-') c = '_';
  return name;
});

}  // namespace
}  // namespace penstock::models
