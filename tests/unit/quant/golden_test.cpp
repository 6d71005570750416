// Every format against the values that the reference implementations make of the same bytes
// (tools/make_quant_goldens.py).
#include <bit>
#include <cmath>
#include <set>
#include <string>

#include <gtest/gtest.h>

#include "quant/format.h"
#include "quant/load.h"
#include "quant/small_float.h"
#include "tensor/weights.h"

namespace penstock::quant {
namespace {

using tensor::Weights;

Weights goldens(const std::string& file) {
  return Weights(
      tensor::Checkpoint::open(std::string(PENSTOCK_SOURCE_DIR) + "/tests/unit/quant/goldens/" + file));
}

std::vector<float> values_of(Weights& weights, const std::string& name) {
  return tensor::to_f32(weights.take_any(name + ".values"));
}

void expect_same_bits(std::span<const float> got, std::span<const float> expected, const std::string& name) {
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_EQ(std::bit_cast<uint32_t>(got[i]), std::bit_cast<uint32_t>(expected[i]))
        << name << " at " << i << ": " << got[i] << " for " << expected[i];
  }
}

std::vector<float> dequantize_all(const Matrix& matrix) {
  std::vector<float> out(static_cast<size_t>(matrix.rows * matrix.cols));
  for (int64_t r = 0; r < matrix.rows; ++r) {
    matrix.format->dequantize(
        matrix, r,
        std::span(out).subspan(static_cast<size_t>(r * matrix.cols), static_cast<size_t>(matrix.cols)));
  }
  return out;
}

/// A golden's name begins with its mode, bits and group: "affine.3.64.bf16".
Config config_of(const std::string& name) {
  const size_t bits = name.find('.') + 1;
  const size_t group = name.find('.', bits) + 1;
  return {Params{name.substr(0, bits - 1), std::stoi(name.substr(group)), std::stoi(name.substr(bits))}, {}};
}

struct Codes {
  std::vector<uint8_t> codes;
  std::vector<float> scales;
  std::vector<float> biases;
};

Codes codes_of(const Matrix& matrix, int64_t row) {
  const auto cols = static_cast<size_t>(matrix.cols);
  const size_t groups = cols / static_cast<size_t>(matrix.format->code_group(matrix));
  Codes out = {std::vector<uint8_t>(cols), std::vector<float>(groups), std::vector<float>(groups)};
  matrix.format->codes(matrix, row, {out.codes, out.scales, out.biases});
  return out;
}

/// The integer form must give the dequantised values; `tolerance` is in units of its scale.
void expect_codes_agree(const Matrix& matrix, bool fused, float tolerance) {
  std::vector<float> expected(static_cast<size_t>(matrix.cols));
  for (int64_t r = 0; r < matrix.rows; ++r) {
    matrix.format->dequantize(matrix, r, expected);
    const Codes row = codes_of(matrix, r);
    const auto group = static_cast<size_t>(matrix.format->code_group(matrix));
    for (size_t c = 0; c < expected.size(); ++c) {
      const auto code = static_cast<float>(row.codes[c]);
      ASSERT_LT(row.codes[c], 1 << matrix.format->code_bits(matrix));
      const float s = row.scales[c / group];
      const float b = row.biases[c / group];
      const float product = s * code;
      const float value = fused ? std::fma(s, code, b) : product + b;
      ASSERT_LE(std::abs(value - expected[c]), tolerance * std::abs(s))
          << matrix.format->name() << " row " << r << " column " << c << ": " << value << " for "
          << expected[c];
    }
  }
}

TEST(Goldens, QT_02_EveryMlxFormatEqualsMlx) {
  Weights weights = goldens("mlx.safetensors");
  std::set<std::string> seen;
  for (const auto& [name, tensor] : weights.checkpoint()->tensors()) {
    if (!name.ends_with(".weight")) continue;
    const std::string base = name.substr(0, name.size() - 7);
    const Matrix matrix = load_matrix(weights, base, 3, 128, config_of(base));
    expect_same_bits(dequantize_all(matrix), values_of(weights, base), base);
    EXPECT_TRUE(base.starts_with(std::string(matrix.format->name()) + "." + std::to_string(matrix.bits) +
                                 "." + std::to_string(matrix.group_size)))
        << base;
    seen.insert(base.substr(0, base.find_last_of('.')));
    if (!matrix.format->integer_codes(matrix)) continue;
    const bool exact = matrix.global_scale == 1;
    expect_codes_agree(matrix, false, exact ? 0 : 0x1p-18f);
    if (!base.ends_with(".f32")) expect_codes_agree(matrix, true, exact ? 0 : 0x1p-18f);
  }
  EXPECT_EQ(seen.size(), 22u);  // 18 affine, mxfp4, mxfp8, nvfp4 with and without a global scale
}

TEST(Goldens, EveryScaleByteMeansWhatMlxSays) {
  Weights weights = goldens("mlx.safetensors");
  const std::vector<float> e8m0 = values_of(weights, "e8m0");
  const std::vector<float> e4m3 = values_of(weights, "e4m3");
  ASSERT_EQ(e8m0.size(), 256u);
  for (int i = 0; i < 256; ++i) {
    const auto byte = static_cast<uint8_t>(i);
    EXPECT_EQ(e8m0_to_f32(byte), e8m0[byte]) << i;
    if (std::isnan(e4m3[byte])) {
      EXPECT_TRUE(std::isnan(e4m3_to_f32(byte))) << i;
    } else {
      EXPECT_EQ(std::bit_cast<uint32_t>(e4m3_to_f32(byte)), std::bit_cast<uint32_t>(e4m3[byte])) << i;
    }
  }
}

Matrix block_matrix(Weights& weights, const Format& format) {
  Matrix matrix;
  matrix.format = &format;
  matrix.codes = weights.take_any(std::string(format.name()) + ".blocks");
  matrix.rows = matrix.codes.shape[0];
  matrix.cols = static_cast<int64_t>(values_of(weights, std::string(format.name())).size()) / matrix.rows;
  return matrix;
}

TEST(Goldens, EveryGgufFormatEqualsTheGgufPackage) {
  Weights weights = goldens("gguf.safetensors");
  int seen = 0;
  for (const Format* format : formats()) {
    const std::string name(format->name());
    if (!weights.has(name + ".blocks")) continue;
    ++seen;
    const Matrix matrix = block_matrix(weights, *format);
    ASSERT_EQ(static_cast<int64_t>(format->row_bytes(matrix)), matrix.codes.shape[1]) << name;
    expect_same_bits(dequantize_all(matrix), values_of(weights, name), name);
    expect_codes_agree(matrix, false, 0);
    expect_codes_agree(matrix, true, 0);
  }
  EXPECT_EQ(seen, 10);
}

TEST(Goldens, RowOrderPicksStoredRows) {
  Weights weights = goldens("gguf.safetensors");
  for (const char* name : {"q4_1", "q6_K"}) {
    Matrix matrix = block_matrix(weights, *find_format(name));
    std::vector<float> expected = dequantize_all(matrix);
    std::rotate(expected.begin(), expected.begin() + matrix.cols, expected.end());
    const Codes second = codes_of(matrix, 1);
    matrix.row_order = {1, 0};
    expect_same_bits(dequantize_all(matrix), expected, name);
    EXPECT_EQ(codes_of(matrix, 0).codes, second.codes);
  }
  Weights mlx = goldens("mlx.safetensors");
  for (const char* name : {"affine.3.64.bf16", "mxfp4.4.32", "mxfp8.8.32", "nvfp4.4.16"}) {
    if (!mlx.has(std::string(name) + ".weight")) continue;
    Matrix matrix = load_matrix(mlx, name, 3, 128, config_of(name));
    std::vector<float> expected = dequantize_all(matrix);
    std::rotate(expected.begin(), expected.begin() + 2 * matrix.cols, expected.end());
    matrix.row_order = {2, 0, 1};
    expect_same_bits(dequantize_all(matrix), expected, name);
  }
}

TEST(Formats, HaveUniqueNamesAndDescriptions) {
  std::set<std::string_view> names;
  for (const Format* format : formats()) {
    EXPECT_TRUE(names.insert(format->name()).second);
    EXPECT_FALSE(format->describe().empty());
    EXPECT_EQ(find_format(format->name()), format);
  }
  EXPECT_EQ(names.size(), 17u);
  EXPECT_EQ(find_format("q9_K"), nullptr);
}

}  // namespace
}  // namespace penstock::quant
