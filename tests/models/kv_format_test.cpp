// Quantised caches: what they cost is what the scalar reference says, blocks take what they should, and
// executors without them refuse.
#include <cmath>
#include <random>

#include <gtest/gtest.h>

#include "base/error.h"
#include "exec/cpu/cpu_executor.h"
#include "exec/logits_runner.h"
#include "exec/plain_cache.h"
#include "exec/reference_executor.h"
#include "models/fixture.h"

namespace penstock::models {
namespace {

using ops::KvFormat;

constexpr KvFormat kQuantised[] = {KvFormat::kQ8, KvFormat::kQ4, KvFormat::kK8V4};

class KvFormatTest : public testing::TestWithParam<const char*> {
 protected:
  KvFormatTest()
      : fixture_(std::filesystem::path(PENSTOCK_SOURCE_DIR) / "tests/models" / GetParam()),
        files_(fixture_.open()) {}

  static exec::Limits limits(KvFormat format) {
    return {.max_slots = 1,
            .max_batch_tokens = 256,
            .max_context = 256,
            .threads = 2,
            .exact = true,
            .kv_format = format};
  }

  /// Logits of 150 tokens, the last ones one at a time.
  std::vector<float> run(exec::Executor& executor, KvFormat format) const {
    std::mt19937 random(3);
    std::vector<int32_t> tokens(150);
    for (int32_t& token : tokens)
      token = static_cast<int32_t>(random() % static_cast<uint32_t>(fixture_.vocab()));
    exec::Limits taken = limits(format);
    taken.n_blocks = exec::LogitsRunner::blocks_for(executor, files_.plan, taken);
    executor.load(files_.plan, files_.weights, taken);
    return exec::LogitsRunner(executor, files_.plan, taken).run({{tokens, {64, 50, 30, 1}}})[0];
  }

  static double distance(const std::vector<float>& a, const std::vector<float>& b) {
    double squares = 0;
    for (size_t i = 0; i < a.size(); ++i) squares += std::pow(double{a[i]} - b[i], 2);
    return std::sqrt(squares / static_cast<double>(a.size()));
  }

  Fixture fixture_;
  ModelFiles files_;
};

/// Codes differ where a number lies next to the middle between two, hence no tolerance that is absolute.
TEST_P(KvFormatTest, BC_08_TheCpuIsNearerToTheReferenceThanTheReferenceToAPlainCache) {
  exec::ReferenceExecutor reference;
  exec::cpu::CpuExecutor cpu;
  const auto plain = run(reference, KvFormat::kPlain);
  for (const KvFormat format : kQuantised) {
    exec::ReferenceExecutor quantised;
    const auto expected = run(quantised, format);
    const double cost = distance(plain, expected), ours = distance(run(cpu, format), expected);
    EXPECT_GT(cost, 1e-3) << ops::name(format);
    EXPECT_LT(ours, 0.2 * cost) << ops::name(format);
    EXPECT_LT(cost, format == KvFormat::kQ8 ? 0.05 : 1.0) << ops::name(format);
  }
}

TEST_P(KvFormatTest, BlocksTakeTheBitsOfTheirCodesAndHalfAByteForEachGroupOf32) {
  exec::cpu::CpuExecutor cpu;
  for (const KvFormat format : kQuantised) {
    const exec::MemoryPlan memory = cpu.measure(files_.plan, files_.weights, limits(format));
    for (size_t g = 0; g < files_.plan.kv_groups.size(); ++g) {
      const KvGroup& group = files_.plan.kv_groups[g];
      const int32_t scales = 2 * ((group.head_dim + 31) / 32);
      const int32_t key = group.head_dim * ops::key_bits(format) / 8 + scales;
      // Values of four bits lie in rows of 32 dimensions, others in rows of eight.
      const int32_t padded =
          ops::value_bits(format) == 4 ? (group.head_dim + 31) / 32 * 32 : (group.head_dim + 7) / 8 * 8;
      const int32_t value = padded * ops::value_bits(format) / 8 + scales;
      EXPECT_EQ(memory.block_bytes[g],
                static_cast<size_t>(64 * group.n_layers * group.kv_heads * (key + value)));
    }
  }
}

TEST_P(KvFormatTest, TheDetailNamesTheFormat) {
  exec::cpu::CpuExecutor cpu;
  run(cpu, KvFormat::kK8V4);
  EXPECT_NE(cpu.caps().detail.find("k8v4 cache"), std::string::npos) << cpu.caps().detail;
}

INSTANTIATE_TEST_SUITE_P(All, KvFormatTest, testing::Values("llama", "gemma3", "qwen3"),
                         [](const auto& info) { return std::string(info.param); });

TEST(KvFormats, AnExecutorWithoutThemSaysWhichOneAndWhatItWasAskedFor) {
  exec::Limits limits;
  EXPECT_NO_THROW(exec::require_plain_cache(limits, "mlx"));
  limits.kv_format = KvFormat::kQ4;
  try {
    exec::require_plain_cache(limits, "mlx");
    FAIL() << "taken";
  } catch (const base::Error& error) {
    EXPECT_EQ(error.code(), base::Code::kInvalidRequest);
    EXPECT_NE(std::string(error.text()).find("the executor mlx does not quantise"), std::string::npos)
        << error.text();
    EXPECT_NE(std::string(error.text()).find("got q4"), std::string::npos) << error.text();
  }
}

TEST(KvFormats, NamesRoundTripAndOthersAreRefused) {
  for (const KvFormat format : {KvFormat::kPlain, KvFormat::kQ8, KvFormat::kQ4, KvFormat::kK8V4})
    EXPECT_EQ(ops::kv_format_named(ops::name(format)), format);
  EXPECT_THROW(ops::kv_format_named("q5"), base::Error);
}

/// Specials: zeros stay zeros, the extreme number of four bits is exact, what is not finite spoils its group.
TEST(KvFormats, TheReferenceRoundsEdges) {
  for (const int32_t bits : {8, 4}) {
    std::vector<float> x(40, 0.0f);
    ops::round_kv_reference(bits, x);
    EXPECT_EQ(x, std::vector<float>(40, 0.0f));
    x[3] = -4.0f, x[4] = 1.1f, x[35] = 2.0f;
    ops::round_kv_reference(bits, x);
    EXPECT_NEAR(x[3], -4.0f, 4e-3);
    EXPECT_NEAR(x[4], 1.1f, bits == 8 ? 0.02 : 0.26);
    EXPECT_NEAR(x[35], 2.0f, 2e-3);
    x[0] = std::nanf("");
    ops::round_kv_reference(bits, x);
    EXPECT_TRUE(std::isnan(x[4]));
    EXPECT_NEAR(x[35], 2.0f, 2e-3);
  }
}

}  // namespace
}  // namespace penstock::models
