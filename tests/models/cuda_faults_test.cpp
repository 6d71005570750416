// What happens when the device has too little memory, and when a kernel traps (in a child process: nothing
// works there afterwards).
#include <cstdio>
#include <cstdlib>
#include <string>

#include <gtest/gtest.h>

#include "base/error.h"
#include "exec/cuda/cuda_executor.h"
#include "exec/logits_runner.h"
#include "models/fixture.h"

namespace penstock::models {
namespace {

struct Loaded {
  ModelFiles files = Fixture(std::filesystem::path(PENSTOCK_SOURCE_DIR) / "tests/models/llama-g128").open();
  exec::Limits limits{.max_slots = 2, .max_batch_tokens = 256, .max_context = 1000};
  exec::cuda::CudaExecutor executor;

  void load() { executor.load(files.plan, files.weights, limits); }
};

class CudaFaultsTest : public testing::Test {
 protected:
  void SetUp() override {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    if (exec::cuda::CudaExecutor::devices() == 0) GTEST_SKIP() << "skipped: no CUDA device";
  }
};

TEST_F(CudaFaultsTest, TooMuchMemoryIsRefusedWithNumbersAndLessIsTaken) {
  Loaded model;
  const auto fitting = exec::LogitsRunner::blocks_for(model.executor, model.files.plan, model.limits);
  model.limits.n_blocks.assign(model.files.plan.kv_groups.size(), 1 << 28);
  for (int i = 0; i < 2; ++i) {
    try {
      model.load();
      FAIL() << "it was taken";
    } catch (const base::Error& error) {
      EXPECT_EQ(error.code(), base::Code::kInvalidRequest) << error.what();
      EXPECT_NE(std::string(error.what()).find(" MB of free device memory; got "), std::string::npos)
          << error.what();
    }
  }
  model.limits.n_blocks = fitting;
  model.load();
  const std::vector<int32_t> prompt = {1, 2, 3};
  const auto logits =
      exec::LogitsRunner(model.executor, model.files.plan, model.limits).run({{prompt, {3}}, {prompt, {1}}});
  EXPECT_EQ(logits[0].size(), logits[1].size());
}

/// A slot that nobody has leads far outside of the block tables. Exits with 7 where everything was reported.
[[noreturn]] void run_trap(exec::Role role) {
  int reports = 0;
  {
    Loaded model;
    model.limits.n_blocks = exec::LogitsRunner::blocks_for(model.executor, model.files.plan, model.limits);
    model.load();
    const std::vector<int32_t> tokens = {1};
    const std::vector<exec::Row> rows = {{.slot = 1 << 30, .role = role, .n_tokens = 1}};
    for (int i = 0; i < 2; ++i) {
      try {
        const exec::Ticket ticket = model.executor.forward({rows, tokens, {}});
        model.executor.wait(ticket);
      } catch (const base::Error& error) {
        std::fprintf(stderr, "%s\n", error.what());
        if (error.code() == base::Code::kUnavailable) ++reports;
      }
    }
  }
  std::exit(reports == 2 ? 7 : 1);
}

TEST_F(CudaFaultsTest, ATrapIsReportedAndTheProcessEndsByItself) {
  for (const exec::Role role : {exec::Role::kGenerated, exec::Role::kPrompt})
    EXPECT_EXIT(run_trap(role), testing::ExitedWithCode(7), "start the program again");
}

}  // namespace
}  // namespace penstock::models
