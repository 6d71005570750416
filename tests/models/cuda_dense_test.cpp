// The prompts' multiplication on matrices of every format of the fixtures, against float64; and the same bits
// for few tokens as for many.
#include <cmath>
#include <cstring>
#include <random>
#include <string>

#include <gtest/gtest.h>

#include "exec/cuda/cuda_executor.h"
#include "exec/cuda/prompt.h"
#include "exec/cuda/weights.h"
#include "models/fixture.h"
#include "ops/reference.h"
#include "quant/format.h"
#include "tensor/dtype.h"

namespace penstock::exec::cuda {
namespace {

class CudaDenseTest : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (CudaExecutor::devices() == 0) GTEST_SKIP() << "skipped: no CUDA device";
  }

  /// matrix times the first `tokens` rows of x.
  static std::vector<float> multiply(const TileMatrix& matrix, const std::vector<float>& x, int32_t tokens,
                                     int32_t block_tokens) {
    const TileShape& shape = matrix.shape;
    const auto width = static_cast<size_t>(shape.padded_rows());
    const Memory rows = Memory::device(x.size() * 4),
                 packed = Memory::device(dense_bytes(tokens, shape.cols)),
                 exponents = Memory::device(static_cast<size_t>(tokens) * 4),
                 out = Memory::device(static_cast<size_t>(tokens) * width * 4);
    check(cudaMemcpy(rows.as(), x.data(), x.size() * 4, cudaMemcpyHostToDevice), "copy");
    check(cudaMemset(packed.as(), 0, packed.bytes()), "clear");
    check(cudaMemset(out.as(), 0xff, out.bytes()), "clear");
    const DenseActivations activations{packed.as<uint8_t>(), exponents.as<int32_t>(), shape.cols};
    prompt_pack(rows.as<float>(), activations, tokens, nullptr);
    multiply_dense({matrix, activations, out.as<float>(), tokens, block_tokens}, nullptr);
    std::vector<float> result(static_cast<size_t>(tokens) * width);
    check(cudaMemcpy(result.data(), out.as(), result.size() * 4, cudaMemcpyDeviceToHost), "copy");
    return result;
  }
};

TEST_P(CudaDenseTest, EveryMatrix) {
  const models::Fixture fixture(std::filesystem::path(PENSTOCK_SOURCE_DIR) / "tests/models" / GetParam());
  const models::ModelFiles files = fixture.open();
  WeightLoader loader(false);
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  constexpr int32_t kTokens = 300;
  size_t checked = 0;
  for (size_t w = 0; w < files.weights.size() && checked < 8; ++w) {
    if (files.plan.weights[w].vector) continue;
    ++checked;
    const quant::Matrix& matrix = files.weights[w];
    const DeviceMatrix device = loader.load({{&matrix}});
    const auto cols = static_cast<size_t>(matrix.cols),
               width = static_cast<size_t>(device.tiles.shape.padded_rows());
    std::vector<float> x(kTokens * cols), row(cols);
    for (float& v : x) v = normal(random);
    const std::vector<float> many = multiply(device.tiles, x, kTokens, 256);
    for (const auto& [tokens, block] : {std::pair{5, 0}, {100, 0}, {kTokens, 64}, {kTokens, 128}}) {
      const std::vector<float> other = multiply(device.tiles, x, tokens, block);
      EXPECT_EQ(std::memcmp(many.data(), other.data(), other.size() * 4), 0)
          << files.plan.weights[w].name << ": " << tokens << " in blocks of " << block;
    }
    double error = 0, size = 0;
    for (int64_t r = 0; r < matrix.rows; ++r) {
      matrix.format->dequantize(matrix, r, row);
      for (size_t t = 0; t < kTokens; ++t) {
        double sum = 0;
        for (size_t c = 0; c < cols; ++c) sum += double{row[c]} * x[t * cols + c];
        const double own = many[t * width + static_cast<size_t>(r)];
        error += (own - sum) * (own - sum);
        size += sum * sum;
      }
    }
    EXPECT_LT(std::sqrt(error / size), 1e-3) << files.plan.weights[w].name;
  }
  EXPECT_GT(checked, 2u);
}

/// Gates and what they gate in one matrix: activation(gate) * up in float16, for few tokens as for many.
TEST_P(CudaDenseTest, Gates) {
  const models::Fixture fixture(std::filesystem::path(PENSTOCK_SOURCE_DIR) / "tests/models" / GetParam());
  const models::ModelFiles files = fixture.open();
  const ops::Mlp* mlp = nullptr;
  for (const ops::Operation& operation : files.plan.operations)
    if (mlp == nullptr) mlp = std::get_if<ops::Mlp>(&operation);
  ASSERT_NE(mlp, nullptr);
  const quant::Matrix& gate = files.weights[static_cast<size_t>(mlp->gate.weight)];
  const quant::Matrix& up = files.weights[static_cast<size_t>(mlp->up.weight)];
  if (!(class_of(gate, false) == class_of(up, false)) || gate.rows % kDenseCols != 0)
    GTEST_SKIP() << "gates of this model go through rows of sums";
  constexpr int32_t kTokens = 300;
  WeightLoader loader(false);
  const DeviceMatrix device = loader.load({{&gate, &up}, true});
  const auto cols = static_cast<size_t>(gate.cols);
  std::mt19937 random(5);
  std::normal_distribution<float> normal;
  std::vector<float> x(kTokens * cols);
  for (float& v : x) v = normal(random);
  const Memory rows = Memory::device(x.size() * 4), packed = Memory::device(dense_bytes(kTokens, gate.cols)),
               exponents = Memory::device(kTokens * 4), zeros = Memory::device(kTokens * 4),
               out = Memory::device(dense_bytes(kTokens, gate.rows));
  check(cudaMemcpy(rows.as(), x.data(), x.size() * 4, cudaMemcpyHostToDevice), "copy");
  check(cudaMemset(packed.as(), 0, packed.bytes()), "clear");
  check(cudaMemset(zeros.as(), 0, zeros.bytes()), "clear");
  const DenseActivations in{packed.as<uint8_t>(), exponents.as<int32_t>(), static_cast<int32_t>(gate.cols)};
  const DenseActivations gated{out.as<uint8_t>(), zeros.as<int32_t>(), static_cast<int32_t>(gate.rows)};
  prompt_pack(rows.as<float>(), in, kTokens, nullptr);
  const auto run = [&](int32_t tokens, int32_t block) {
    check(cudaMemset(out.as(), 0xff, out.bytes()), "clear");
    multiply_dense({device.tiles, in, nullptr, tokens, block, {gated, mlp->activation}}, nullptr);
    std::vector<uint16_t> tiles(out.bytes() / 2), result;
    check(cudaMemcpy(tiles.data(), out.as(), out.bytes(), cudaMemcpyDeviceToHost), "copy");
    for (int32_t t = 0; t < tokens; ++t)
      for (int32_t c = 0; c < gated.cols; ++c)
        result.push_back(tiles[static_cast<size_t>((t / 64 * dense_col_blocks(gated.cols) + c / 64) * 4096 +
                                                   t % 64 * 64 + (c % 64 ^ t % 8 * 8))]);
    return result;
  };
  const std::vector<uint16_t> many = run(kTokens, 256);
  for (const auto& [tokens, block] : {std::pair{5, 0}, {100, 0}, {kTokens, 64}, {kTokens, 128}}) {
    const std::vector<uint16_t> other = run(tokens, block);
    EXPECT_EQ(std::memcmp(many.data(), other.data(), other.size() * 2), 0)
        << tokens << " in blocks of " << block;
  }
  double error = 0, size = 0;
  std::vector<float> gate_row(cols), up_row(cols);
  for (int64_t r = 0; r < gate.rows; ++r) {
    gate.format->dequantize(gate, r, gate_row);
    up.format->dequantize(up, r, up_row);
    for (size_t t = 0; t < kTokens; ++t) {
      double g = 0, u = 0;
      for (size_t c = 0; c < cols; ++c) {
        g += double{gate_row[c]} * x[t * cols + c];
        u += double{up_row[c]} * x[t * cols + c];
      }
      const double expected = double{ops::activation_reference(mlp->activation, static_cast<float>(g))} * u;
      const double own =
          tensor::f16_to_f32(many[t * static_cast<size_t>(gate.rows) + static_cast<size_t>(r)]);
      error += (own - expected) * (own - expected);
      size += expected * expected;
    }
  }
  EXPECT_LT(std::sqrt(error / size), 2e-3);
}

std::vector<std::string> fixtures() {
  std::vector<std::string> names;
  for (const auto& folder : models::Fixture::folders()) names.push_back(folder.filename().string());
  return names;
}

INSTANTIATE_TEST_SUITE_P(All, CudaDenseTest, testing::ValuesIn(fixtures()), [](const auto& info) {
  std::string name = info.param;
  for (char& c : name)
    if (c == '-') c = '_';
  return name;
});

}  // namespace
}  // namespace penstock::exec::cuda
