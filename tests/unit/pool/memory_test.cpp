#include "pool/memory.h"

#include <string>

#include <gtest/gtest.h>

#include "base/error.h"

namespace penstock::pool {
namespace {

constexpr size_t kGigabyte = size_t{1} << 30;

TEST(AutomaticCacheBytes, DeviceMemoryLessWeightsBuffersAndReserve) {
  exec::MemoryPlan plan;
  plan.device_free_bytes = 16 * kGigabyte;
  plan.weight_bytes = 4 * kGigabyte;
  plan.scratch_bytes = 1 * kGigabyte;
  plan.slot_bytes = kGigabyte / 8;
  EXPECT_EQ(automatic_cache_bytes(plan, 8), 9 * kGigabyte);
}

TEST(AutomaticCacheBytes, RefusesWhatDoesNotFitWithNumbers) {
  exec::MemoryPlan plan;
  plan.device_free_bytes = 4 * kGigabyte;
  plan.weight_bytes = 4 * kGigabyte;
  try {
    automatic_cache_bytes(plan, 1);
    FAIL() << "expected a refusal";
  } catch (const base::Error& error) {
    EXPECT_EQ(error.code(), base::Code::kInvalidRequest);
    EXPECT_NE(std::string(error.text()).find("4096 MB"), std::string::npos) << error.text();
  }
}

TEST(AutomaticCacheBytes, MachineMemoryWithoutADevice) {
  EXPECT_LE(automatic_cache_bytes({}, 1), machine_memory().total_bytes / 3);
}

}  // namespace
}  // namespace penstock::pool
