// The engine on the CUDA executor, two steps in flight: sequences that are stopped to make room and begin
// again draw the tokens that they draw alone, and a slot that begins again has what it had drawn.
#include <random>
#include <set>
#include <string>

#include <gtest/gtest.h>

#include "exec/cuda/cuda_executor.h"
#include "exec/logits_runner.h"
#include "models/fixture.h"
#include "unit/engine/engine_fixture.h"

namespace penstock::models {
namespace {

using exec::cuda::CudaExecutor;

class CudaEngineTest : public ::testing::TestWithParam<std::string> {
 protected:
  CudaEngineTest()
      : fixture_(std::filesystem::path(PENSTOCK_SOURCE_DIR) / "tests/models" / GetParam()),
        files_(fixture_.open()) {}

  void SetUp() override {
    if (CudaExecutor::devices() == 0) GTEST_SKIP() << "skipped: no CUDA device";
  }

  std::vector<int32_t> tokens(size_t n, uint32_t seed) const {
    std::mt19937 random(seed);
    std::vector<int32_t> out(n);
    for (int32_t& token : out)
      token = static_cast<int32_t>(random() % static_cast<uint32_t>(fixture_.vocab()));
    return out;
  }

  /// Every draw depends on what was drawn before.
  engine::Job job(uint32_t i) const {
    engine::Job job;
    job.prompt = tokens(70 + 11 * i, i);
    job.max_tokens = 150;
    job.params.seed = i;
    job.params.temperature = i % 3 == 0 ? 0.0f : 0.9f;
    job.params.repetition_penalty = i % 2 == 0 ? 1.3f : 1.0f;
    job.params.frequency_penalty = 0.4f;
    job.params.presence_penalty = i % 2 == 0 ? 0.0f : 0.5f;
    return job;
  }

  std::unique_ptr<engine::Engine> engine_with(int32_t blocks) const {
    exec::Limits limits{.max_slots = 6, .max_batch_tokens = 256, .max_context = 512};
    limits.n_blocks.assign(files_.plan.kv_groups.size(), blocks);
    auto executor = std::make_unique<CudaExecutor>();
    executor->load(files_.plan, files_.weights, limits);
    engine::EngineOptions options;
    options.max_seqs = limits.max_slots;
    options.max_batch_tokens = limits.max_batch_tokens;
    options.prefill_chunk_tokens = 128;
    options.context_length = limits.max_context;
    options.n_blocks = limits.n_blocks;
    options.prefix_cache = false;  // what was stopped is computed again, all of it
    return std::make_unique<engine::Engine>(std::move(executor), files_.plan, options);
  }

  Fixture fixture_;
  ModelFiles files_;
};

TEST_P(CudaEngineTest, PreemptedSequencesDrawWhatTheyDrawAlone) {
  constexpr uint32_t kJobs = 6;
  const auto roomy = engine_with(64);
  std::vector<std::vector<int32_t>> alone;
  for (uint32_t i = 0; i < kJobs; ++i) alone.push_back(penstock::testing::run(*roomy, job(i)).ids);
  EXPECT_EQ(roomy->counters().preempted, 0u);
  const auto narrow = engine_with(11);
  std::vector<std::shared_ptr<penstock::testing::Collector>> sinks;
  for (uint32_t i = 0; i < kJobs; ++i) {
    sinks.push_back(std::make_shared<penstock::testing::Collector>());
    narrow->submit(job(i), sinks.back());
  }
  for (uint32_t i = 0; i < kJobs; ++i) {
    const penstock::testing::Result result(*sinks[i]);
    EXPECT_EQ(result.receipt.finish, engine::Finish::kLength) << result.receipt.error;
    EXPECT_EQ(result.ids, alone[i]) << "job " << i;
  }
  EXPECT_GT(narrow->counters().preempted, 0u);
  std::printf("%llu preempted\n", static_cast<unsigned long long>(narrow->counters().preempted));
}

/// The first greedy draw of a sequence of the prompt and `drawn`, the last of which only the device knows
/// where `on_device`.
int32_t next_of(CudaExecutor& executor, const Plan& plan, const exec::Limits& limits,
                const std::vector<int32_t>& prompt, const std::vector<int32_t>& drawn, bool on_device) {
  std::vector<exec::TableEdit> edits;
  for (int32_t g = 0; g < static_cast<int32_t>(plan.kv_groups.size()); ++g)
    for (int32_t i = 0; i < limits.max_context / 64; ++i) edits.push_back({0, g, i, i});
  executor.reset_slot(0, prompt, drawn);
  std::vector<int32_t> tokens = prompt;
  tokens.insert(tokens.end(), drawn.begin(), drawn.end());
  const auto end = static_cast<int32_t>(tokens.size()) - 1;
  const std::vector<exec::Row> before = {{.role = exec::Role::kPrompt, .n_tokens = end}};
  exec::Ticket ticket = executor.forward({before, std::span(tokens).first(tokens.size() - 1), edits});
  executor.wait(ticket);
  executor.release(ticket);
  const std::vector<int32_t> last = {on_device ? exec::kOnDevice : tokens.back()};
  const std::vector<exec::Row> rows = {
      {.role = exec::Role::kGenerated, .n_tokens = 1, .position = end, .n_logits = 1}};
  ticket = executor.forward({rows, last, {}});
  exec::SampleRow draw;
  draw.params.repetition_penalty = 1.5f;
  draw.params.frequency_penalty = 1.0f;
  executor.sample(ticket, {std::span(&draw, 1), {}});
  const int32_t token = executor.wait(ticket).tokens[0];
  executor.release(ticket);
  return token;
}

TEST_P(CudaEngineTest, ASlotThatBeginsAgainHasItsLastToken) {
  exec::Limits limits{.max_slots = 1, .max_batch_tokens = 64, .max_context = 128};
  limits.n_blocks.assign(files_.plan.kv_groups.size(), 4);
  CudaExecutor executor;
  executor.load(files_.plan, files_.weights, limits);
  std::set<int32_t> seen;
  for (uint32_t i = 0; i < 20; ++i) {
    const std::vector<int32_t> prompt = tokens(20, i), drawn = tokens(1 + i % 7, 100 + i);
    const int32_t given = next_of(executor, files_.plan, limits, prompt, drawn, false);
    EXPECT_EQ(next_of(executor, files_.plan, limits, prompt, drawn, true), given) << i;
    seen.insert(given);
  }
  EXPECT_GT(seen.size(), 4u) << "the token decides nothing";
}

INSTANTIATE_TEST_SUITE_P(All, CudaEngineTest, ::testing::Values("llama-q4", "qwen3-q4", "gemma3-q4"),
                         [](const auto& info) {
                           std::string name = info.param;
                           name.erase(name.find('-'), 1);
                           return name;
                         });

}  // namespace
}  // namespace penstock::models
