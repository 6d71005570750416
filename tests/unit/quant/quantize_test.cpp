// Quantising gives the bits of mx.quantize (tools/make_quant_goldens.py), and what it gives loads and reads
// back near.
#include "quant/quantize.h"

#include <cmath>

#include <gtest/gtest.h>

#include "base/error.h"
#include "quant/format.h"
#include "quant/load.h"

namespace penstock::quant {
namespace {

using tensor::View;

Params params_of(const std::string& base) {
  if (base == "quantize.mxfp4") return {"mxfp4", 32, 4};
  if (base == "quantize.mxfp8") return {"mxfp8", 32, 8};
  if (base == "quantize.nvfp4") return {"nvfp4", 16, 4};
  const size_t group_at = base.find('.', 9) + 1;
  return {"affine", std::stoi(base.substr(group_at)), std::stoi(base.substr(9))};
}

TEST(Quantize, EqualsMlxBitForBit) {
  tensor::Weights weights(tensor::Checkpoint::open(std::string(PENSTOCK_SOURCE_DIR) +
                                                   "/tests/unit/quant/goldens/mlx_quantize.safetensors"));
  int seen = 0;
  for (const auto& [name, stored] : weights.checkpoint()->tensors()) {
    if (!name.ends_with(".source")) continue;
    const std::string base = name.substr(0, name.size() - 7);
    for (const tensor::OwnedTensor& part : quantize(weights.take_any(name), params_of(base), base)) {
      const View expected = weights.take(part.name, part.shape);
      EXPECT_EQ(part.dtype, expected.dtype) << part.name;
      EXPECT_TRUE(
          std::equal(part.bytes.begin(), part.bytes.end(), expected.bytes.begin(), expected.bytes.end()))
          << part.name;
    }
    ++seen;
  }
  EXPECT_EQ(seen, 21);
  EXPECT_NO_THROW(weights.finish());
}

TEST(Quantize, TiesGoTowardsZeroAndZerosStay) {
  std::vector<float> values(64);
  const float row[] = {6,  0.25f,  0.75f,  1.25f,  1.75f,  2.5f,  3.5f,  5,
                       -6, -0.25f, -0.75f, -1.25f, -1.75f, -2.5f, -3.5f, -5};
  std::copy(std::begin(row), std::end(row), values.begin());
  const View source = {tensor::DType::kF32, {2, 32}, std::as_bytes(std::span(values))};
  tensor::Weights weights(tensor::Checkpoint::in_memory(quantize(source, {"mxfp4", 32, 4}, "m")));
  const Matrix matrix = load_matrix(weights, "m", 2, 32, {Params{"mxfp4", 32, 4}, {}});
  std::vector<float> out(32);
  matrix.format->dequantize(matrix, 0, out);
  const float expected[] = {6, 0, .5, 1, 1.5, 2, 3, 4, -6, 0, -.5, -1, -1.5, -2, -3, -4};
  for (size_t i = 0; i < 16; ++i) EXPECT_EQ(out[i], expected[i]) << i;
  matrix.format->dequantize(matrix, 1, out);
  for (const float value : out) EXPECT_EQ(value, 0);
}

TEST(Quantize, ErrorIsBoundedByTheStep) {
  std::vector<float> values(256);
  for (size_t i = 0; i < values.size(); ++i) values[i] = std::sin(static_cast<float>(i * i));
  const View source = {tensor::DType::kF32, {2, 128}, std::as_bytes(std::span(values))};
  for (const int bits : {2, 3, 4, 5, 6, 8}) {
    tensor::Weights weights(tensor::Checkpoint::in_memory(quantize(source, {"affine", 64, bits}, "m")));
    const Matrix matrix = load_matrix(weights, "m", 2, 128, {Params{"affine", 64, bits}, {}});
    std::vector<float> out(128);
    matrix.format->dequantize(matrix, 1, out);
    const float step = 2.1f / static_cast<float>((1 << bits) - 1);
    for (size_t i = 0; i < 128; ++i) EXPECT_LE(std::abs(out[i] - values[128 + i]), step) << bits;
  }
}

TEST(Quantize, RefusesWhatDoesNotFit) {
  std::vector<float> values(96);
  const auto bytes = std::as_bytes(std::span(values));
  EXPECT_THROW(quantize({tensor::DType::kF32, {1, 96}, bytes}, {"affine", 64, 4}, "m"), base::Error);
  EXPECT_THROW(quantize({tensor::DType::kF32, {96}, bytes}, {"affine", 32, 4}, "m"), base::Error);
  EXPECT_THROW(quantize({tensor::DType::kI32, {1, 96}, bytes}, {"affine", 32, 4}, "m"), base::Error);
}

}  // namespace
}  // namespace penstock::quant
