// Draws on the device against ops::sample: the same tokens, whatever is cut.
#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "exec/cuda/cuda_executor.h"
#include "exec/cuda/device.h"
#include "exec/cuda/sampling.h"
#include "ops/elementary.h"
#include "ops/sample.h"

namespace penstock::exec::cuda {
namespace {

class CudaSamplingTest : public testing::TestWithParam<int32_t> {
 protected:
  void SetUp() override {
    if (CudaExecutor::devices() == 0) GTEST_SKIP() << "skipped: no CUDA device";
  }

  /// The tokens of one row under each of the parameters, after a sequence of the prompt and the drawn tokens.
  static std::vector<int32_t> draw_all(const std::vector<float>& logits,
                                       const std::vector<ops::SampleParams>& all,
                                       const std::vector<int32_t>& prompt = {},
                                       const std::vector<int32_t>& drawn = {}) {
    const auto vocab = static_cast<int32_t>(logits.size()), n = static_cast<int32_t>(all.size());
    std::vector<DrawRow> rows;
    for (int32_t r = 0; r < n; ++r) rows.push_back(draw_row(all[static_cast<size_t>(r)], r, r, 100 + r));
    const auto count = static_cast<size_t>(n);
    const Memory values = Memory::device(logits.size() * 4 * count),
                 counts = Memory::device(logits.size() * 4 * count),
                 ids = Memory::device((prompt.size() + drawn.size() + 1) * 4),
                 slots = Memory::device(count * 4), list = Memory::device(count * sizeof(DrawRow)),
                 blocks = Memory::device(count * static_cast<size_t>(draw_blocks(vocab)) * sizeof(DrawBlock)),
                 cuts = Memory::device(count * sizeof(DrawCut)),
                 results = Memory::device(count * sizeof(DrawResult)), last = Memory::device(count * 4);
    check(cudaMemcpy(ids.as(), prompt.data(), prompt.size() * 4, cudaMemcpyHostToDevice), "copy");
    check(
        cudaMemcpy(ids.as<int32_t>() + prompt.size(), drawn.data(), drawn.size() * 4, cudaMemcpyHostToDevice),
        "copy");
    for (int32_t r = 0; r < n; ++r) {
      const size_t at = static_cast<size_t>(r) * logits.size();
      check(cudaMemcpy(values.as<float>() + at, logits.data(), logits.size() * 4, cudaMemcpyHostToDevice),
            "copy");
      // half of what was drawn comes with the sequence, as after a preemption
      reset_counts(
          {counts.as<uint32_t>() + at, vocab},
          {ids.as<int32_t>(), static_cast<int32_t>(prompt.size()), static_cast<int32_t>(drawn.size() / 2)},
          nullptr);
      check(cudaMemcpy(slots.as<int32_t>() + r, &r, 4, cudaMemcpyHostToDevice), "copy");
      for (size_t i = drawn.size() / 2; i < drawn.size(); ++i)
        set_last_tokens({slots.as<int32_t>() + r, ids.as<int32_t>() + prompt.size() + i, 1,
                         last.as<int32_t>(), counts.as<uint32_t>(), vocab},
                        nullptr);
    }
    check(cudaMemcpy(list.as(), rows.data(), list.bytes(), cudaMemcpyHostToDevice), "copy");
    const DrawArguments arguments{list.as<DrawRow>(),
                                  values.as<float>(),
                                  blocks.as<DrawBlock>(),
                                  results.as<DrawResult>(),
                                  last.as<int32_t>(),
                                  counts.as<uint32_t>(),
                                  !prompt.empty() || !drawn.empty(),
                                  cuts.as<DrawCut>(),
                                  vocab,
                                  vocab};
    draw(arguments, n, nullptr);
    std::vector<DrawResult> out(count);
    check(cudaMemcpy(out.data(), results.as(), results.bytes(), cudaMemcpyDeviceToHost), "copy");
    std::vector<int32_t> tokens;
    for (const DrawResult& result : out) tokens.push_back(result.token);
    return tokens;
  }
};

TEST_P(CudaSamplingTest, TheSameTokensAsOnTheHost) {
  const int32_t vocab = GetParam();
  std::mt19937 random(static_cast<uint32_t>(vocab));
  std::normal_distribution<float> normal;
  for (const float spread : {0.0f, 0.01f, 2.0f, 30.0f})
    for (const int kind : {0, 1, 2}) {  // any, many equal ones, many that are never drawn
      std::vector<float> logits(static_cast<size_t>(vocab));
      for (float& v : logits) {
        v = normal(random) * spread;
        if (kind == 1) v = std::round(v);
        if (kind == 2 && random() % 3 > 0) v = -std::numeric_limits<float>::infinity();
      }
      logits[random() % logits.size()] = 1.5f * spread;  // one at least is finite
      std::vector<ops::SampleParams> all;
      for (const float temperature : {0.0f, 0.3f, 1.0f, 20.0f})
        for (const int32_t top_k : {0, 1, 7, 20, 5000})
          for (const float top_p : {1.0f, 0.95f, 0.4f, 0.0f})
            for (const float min_p : {0.0f, 0.1f}) {
              ops::SampleParams p;
              p.temperature = temperature;
              p.top_k = top_k;
              p.top_p = top_p;
              p.min_p = min_p;
              p.seed = random();
              all.push_back(p);
            }
      const std::vector<int32_t> own = draw_all(logits, all);
      for (size_t i = 0; i < all.size(); ++i) {
        const ops::Draw expected = ops::sample(logits, all[i], {}, 100 + static_cast<int32_t>(i), -1);
        ASSERT_EQ(own[i], expected.token)
            << "spread " << spread << " kind " << kind << ": temperature " << all[i].temperature << " top_k "
            << all[i].top_k << " top_p " << all[i].top_p << " min_p " << all[i].min_p;
      }
    }
}

TEST_P(CudaSamplingTest, TheSameTokensAfterPenalties) {
  const int32_t vocab = GetParam();
  std::mt19937 random(static_cast<uint32_t>(vocab) + 1);
  std::normal_distribution<float> normal;
  std::vector<float> logits(static_cast<size_t>(vocab));
  for (float& v : logits) v = normal(random) * 4;
  std::vector<int32_t> prompt, drawn;
  for (int i = 0; i < 300; ++i) prompt.push_back(static_cast<int32_t>(random() % logits.size()));
  for (int i = 0; i < 12; ++i) drawn.push_back(static_cast<int32_t>(random() % logits.size()));
  const auto largest = static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
  prompt.push_back(largest);
  drawn.insert(drawn.end(), {largest, largest, prompt.front()});
  std::vector<ops::TokenCounts> counts(logits.size());
  for (int32_t t = 0; t < vocab; ++t) counts[static_cast<size_t>(t)].token = t;
  for (const int32_t t : prompt) counts[static_cast<size_t>(t)].in_prompt = true;
  for (const int32_t t : drawn) ++counts[static_cast<size_t>(t)].generated;
  std::erase_if(counts, [](const ops::TokenCounts& c) { return !c.in_prompt && c.generated == 0; });
  std::vector<ops::SampleParams> all;
  for (const float repetition : {1.0f, 1.1f, 0.9f})
    for (const float presence : {0.0f, 0.7f})
      for (const float frequency : {0.0f, 0.3f})
        for (const int32_t top_k : {0, 20}) {
          ops::SampleParams p;
          p.temperature = top_k == 0 ? 0 : 0.8f;
          p.top_k = top_k;
          p.top_p = 0.9f;
          p.repetition_penalty = repetition;
          p.presence_penalty = presence;
          p.frequency_penalty = frequency;
          p.seed = random();
          all.push_back(p);
        }
  const std::vector<int32_t> own = draw_all(logits, all, prompt, drawn);
  for (size_t i = 0; i < all.size(); ++i)
    EXPECT_EQ(own[i], ops::sample(logits, all[i], {{}, counts, {}}, 100 + static_cast<int32_t>(i), -1).token)
        << "penalties " << all[i].repetition_penalty << ' ' << all[i].presence_penalty << ' '
        << all[i].frequency_penalty << " top_k " << all[i].top_k;
}

INSTANTIATE_TEST_SUITE_P(Vocab, CudaSamplingTest, testing::Values(3, 97, 1025, 32000, 151936));

}  // namespace
}  // namespace penstock::exec::cuda
