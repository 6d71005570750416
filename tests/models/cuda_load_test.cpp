// What the pool does with a device that has memory of its own: what the cache is planned from, and what is
// refused with a reason.
#include <string>

#include <gtest/gtest.h>

#include "base/error.h"
#include "exec/cuda/cuda_executor.h"
#include "models/fixture.h"
#include "pool/loader.h"

namespace penstock::models {
namespace {

class CudaLoadTest : public testing::Test {
 protected:
  void SetUp() override {
    if (exec::cuda::CudaExecutor::devices() == 0) GTEST_SKIP() << "skipped: no CUDA device";
    options_.name = "tiny";
    options_.executor = "cuda";
    options_.max_seqs = 4;
    options_.context_length = 1024;
  }

  std::string refusal(const std::shared_ptr<const ModelFiles>& draft = nullptr) const {
    try {
      pool::load_executor(files_, options_, {}, draft);
    } catch (const base::Error& error) {
      return error.what();
    }
    return "it was taken";
  }

  size_t free_bytes() const {
    exec::Limits limits{.max_slots = 4, .max_batch_tokens = 256, .max_context = 1024};
    return exec::cuda::CudaExecutor().measure(files_.plan, files_.weights, limits).device_free_bytes;
  }

  void guard(const std::string& tier) {
    options_.memory = std::make_shared<pool::MemoryGuard>(pool::GuardOptions{.tier = tier});
  }

  ModelFiles files_ = Fixture(std::filesystem::path(PENSTOCK_SOURCE_DIR) / "tests/models/llama-q4").open();
  pool::LoadOptions options_;
};

TEST_F(CudaLoadTest, AQuantisedCacheIsRefused) {
  options_.kv_format = ops::KvFormat::kQ8;
  EXPECT_NE(refusal().find("the executor cuda does not quantise keys and values"), std::string::npos)
      << refusal();
}

TEST_F(CudaLoadTest, ADraftModelIsRefused) {
  options_.max_draft_tokens = 4;
  const auto draft = std::make_shared<const ModelFiles>(
      Fixture(std::filesystem::path(PENSTOCK_SOURCE_DIR) / "tests/models/llama-q4").open());
  EXPECT_NE(refusal(draft).find("an executor that checks drafts for the draft model; got cuda"),
            std::string::npos)
      << refusal(draft);
}

TEST_F(CudaLoadTest, TheCacheMayTakeTheTiersShareOfTheDevice) {
  double before = 0;
  for (const std::string tier : {"safe", "balanced", "aggressive"}) {
    guard(tier);
    const double share = options_.memory->device_share();
    EXPECT_GT(share, before) << tier;
    before = share;
    const auto free = static_cast<double>(free_bytes());
    options_.kv_memory_bytes = static_cast<uint64_t>(free * (share + 0.01));
    const std::string text = refusal();
    EXPECT_NE(text.find("of the device's "), std::string::npos) << text;
    EXPECT_NE(text.find("that are free, as memory_guard " + tier + " allows"), std::string::npos) << text;
    options_.kv_memory_bytes = static_cast<uint64_t>(free * (share - 0.01));
    EXPECT_EQ(refusal(), "it was taken") << tier;
  }
}

TEST_F(CudaLoadTest, WhatIsLoadedTakesWhatWasPlanned) {
  guard("balanced");
  options_.max_seqs = 64;
  options_.context_length = 2048;
  const size_t before = free_bytes();
  const pool::LoadedExecutor loaded = pool::load_executor(files_, options_);
  const size_t after = free_bytes();
  EXPECT_TRUE(loaded.memory.on_device);
  EXPECT_EQ(loaded.limits.n_blocks[0], 64 * 2048 / 64);
  const auto taken = static_cast<double>(before - after),
             planned = static_cast<double>(loaded.memory.planned_bytes());
  std::printf("%.1f MB planned, %.1f MB taken\n", planned / 1e6, taken / 1e6);
  // The driver rounds allocations up and keeps some for itself; nobody else should be on the device.
  EXPECT_GT(taken, 0.9 * planned);
  EXPECT_LT(taken, planned + 256e6);
}

}  // namespace
}  // namespace penstock::models
