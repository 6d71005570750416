#include "quant/load.h"

#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/error.h"
#include "quant/format.h"

namespace penstock::quant {
namespace {

using tensor::DType;
using tensor::OwnedTensor;
using tensor::Shape;
using tensor::Weights;

OwnedTensor zeros(const std::string& name, DType dtype, const Shape& shape) {
  size_t bytes = tensor::size_bytes(dtype);
  for (const int64_t n : shape) bytes *= static_cast<size_t>(n);
  return {name, dtype, shape, std::vector<std::byte>(bytes)};
}

Weights weights_of(std::vector<OwnedTensor> tensors) {
  return Weights(tensor::Checkpoint::in_memory(std::move(tensors)));
}

/// An affine module "m" of 8 x 128.
Weights affine_weights(int64_t bits, int64_t group, DType scales = DType::kBF16) {
  return weights_of({zeros("m.weight", DType::kU32, {8, 128 * bits / 32}),
                     zeros("m.scales", scales, {8, 128 / group}),
                     zeros("m.biases", scales, {8, 128 / group})});
}

Config config_of(const char* text) {
  return Config::parse(base::parse_json(text, "config.json"));
}

/// A config that says "quantised" and no more: affine, group 64, 4 bits.
const Config kQuantised = {Params{}, {}};

std::string error_of(Weights weights, const Config& config = kQuantised, int64_t rows = 8,
                     int64_t cols = 128) {
  try {
    load_matrix(weights, "m", rows, cols, config);
  } catch (const base::Error& error) {
    return error.what();
  }
  return "";
}

TEST(LoadMatrix, ShapesFixBitsAndGroup) {
  for (const int bits : {2, 3, 4, 5, 6, 8}) {
    for (const int group : {32, 64, 128}) {
      Weights weights = affine_weights(bits, group);
      const Matrix matrix = load_matrix(weights, "m", 8, 128, {Params{"affine", group, bits}, {}});
      EXPECT_EQ(matrix.bits, bits);
      EXPECT_EQ(matrix.group_size, group);
      EXPECT_EQ(matrix.format, find_format("affine"));
      EXPECT_NO_THROW(weights.finish());
    }
  }
}

TEST(LoadMatrix, ML_05_ScalesDecideWhetherItIsQuantised) {
  const Config four = config_of(R"({"quantization": {"group_size": 64, "bits": 4}})");
  Weights dense = weights_of({zeros("m.weight", DType::kBF16, {8, 128})});
  EXPECT_EQ(load_matrix(dense, "m", 8, 128, four).format, find_format("bf16"));
  Weights packed = affine_weights(4, 64);
  EXPECT_EQ(load_matrix(packed, "m", 8, 128, four).format, find_format("affine"));
}

TEST(LoadMatrix, AContradictedConfigNamesTheTensor) {
  const Config four = config_of(R"({"quantization": {"group_size": 64, "bits": 4}})");
  for (const auto& [bits, group] : std::vector<std::pair<int, int>>{{6, 64}, {4, 32}, {8, 128}}) {
    const std::string error = error_of(affine_weights(bits, group), four);
    EXPECT_NE(error.find("4 bits, group 64, as config.json says for m;"), std::string::npos) << error;
    EXPECT_NE(error.find(std::to_string(bits) + " bits, group " + std::to_string(group)), std::string::npos);
  }
  const std::vector<OwnedTensor> mxfp4 = {zeros("m.weight", DType::kU32, {8, 16}),
                                          zeros("m.scales", DType::kU8, {8, 4})};
  const Config affine = config_of(R"({"quantization": {"group_size": 32, "bits": 4}})");
  EXPECT_NE(error_of(weights_of(mxfp4), affine).find("affine, 4 bits"), std::string::npos);
}

TEST(LoadMatrix, ScalesWithoutAWordInTheConfigAreAnError) {
  EXPECT_NE(error_of(affine_weights(4, 64), {}).find("a quantization section"), std::string::npos);
}

TEST(LoadMatrix, QT_11_AContradictedOverrideNamesTheTensor) {
  const Config eight = config_of(R"({"quantization": {"bits": 4, "m": {"group_size": 64, "bits": 8}}})");
  EXPECT_NE(error_of(affine_weights(4, 64), eight).find("for m;"), std::string::npos);
  EXPECT_EQ(error_of(affine_weights(8, 64), eight), "");
  EXPECT_NE(error_of(weights_of({zeros("m.weight", DType::kBF16, {8, 128})}), eight).find("m.scales"),
            std::string::npos);
  const Config kept = config_of(R"({"quantization": {"bits": 4, "m": false}})");
  EXPECT_NE(error_of(affine_weights(4, 64), kept).find("floating point"), std::string::npos);
  EXPECT_EQ(error_of(weights_of({zeros("m.weight", DType::kBF16, {8, 128})}), kept), "");
}

TEST(LoadMatrix, QT_02_ModesByTheTypeOfTheScales) {
  const auto load = [](const char* mode, int bits, int group) {
    Weights weights = weights_of({zeros("m.weight", DType::kU32, {8, 128 * bits / 32}),
                                  zeros("m.scales", DType::kU8, {8, 128 / group})});
    return load_matrix(weights, "m", 8, 128, {Params{mode, group, bits}, {}}).format->name();
  };
  EXPECT_EQ(load("mxfp4", 4, 32), "mxfp4");
  EXPECT_EQ(load("mxfp8", 8, 32), "mxfp8");
  EXPECT_EQ(load("nvfp4", 4, 16), "nvfp4");
  EXPECT_THROW(load("affine", 4, 64), base::Error);
}

TEST(LoadMatrix, EveryWrongShapeIsAnError) {
  EXPECT_NE(error_of(affine_weights(4, 64), kQuantised, 9), "");
  EXPECT_NE(error_of(affine_weights(4, 64), kQuantised, 8, 100), "");
  EXPECT_NE(error_of(affine_weights(4, 64), kQuantised, 0, 0), "");
  const auto three = [](OwnedTensor weight, OwnedTensor scales, OwnedTensor biases) {
    return error_of(weights_of({std::move(weight), std::move(scales), std::move(biases)}));
  };
  const OwnedTensor weight = zeros("m.weight", DType::kU32, {8, 16});
  const OwnedTensor scales = zeros("m.scales", DType::kF16, {8, 2});
  EXPECT_EQ(three(weight, scales, zeros("m.biases", DType::kF16, {8, 2})), "");
  EXPECT_NE(three(weight, scales, zeros("m.biases", DType::kF16, {8, 4})), "");
  EXPECT_NE(three(weight, scales, zeros("m.biases", DType::kI32, {8, 2})), "");
  EXPECT_NE(three(weight, scales, zeros("m.bias", DType::kF16, {8, 2})), "");
  EXPECT_NE(three(weight, zeros("m.scales", DType::kF16, {8, 0}), zeros("m.biases", DType::kF16, {8, 0})),
            "");
  EXPECT_NE(three(weight, zeros("m.scales", DType::kF16, {16}), zeros("m.biases", DType::kF16, {16})), "");
  EXPECT_NE(three(weight, zeros("m.scales", DType::kU8, {8, 4}), zeros("m.biases", DType::kU8, {8, 4})), "");
  EXPECT_NE(three(zeros("m.weight", DType::kI32, {8, 16}), scales, zeros("m.biases", DType::kF16, {8, 2})),
            "");
  EXPECT_NE(three(zeros("m.weight", DType::kU32, {8, 28}), scales, zeros("m.biases", DType::kF16, {8, 2})),
            "");
  EXPECT_NE(three(zeros("m.weight", DType::kU32, {8, 15}), scales, zeros("m.biases", DType::kF16, {8, 2})),
            "");
}

TEST(LoadMatrix, DenseMustBeFloating) {
  EXPECT_NE(error_of(weights_of({zeros("m.weight", DType::kI8, {8, 128})})), "");
  EXPECT_NE(error_of(weights_of({zeros("m.weight", DType::kU32, {8, 16})})), "");
}

TEST(LoadMatrix, GlobalScaleOnlyBesideNvfp4) {
  EXPECT_NE(
      error_of(weights_of({zeros("m.weight", DType::kU32, {8, 16}), zeros("m.scales", DType::kU8, {8, 4}),
                           zeros("m.global_scale", DType::kF32, {1})})),
      "");
}

std::string vector_error(DType dtype, const Shape& shape) {
  Weights weights = weights_of({zeros("model.norm.weight", dtype, shape)});
  try {
    load_vector(weights, "model.norm.weight", 64);
  } catch (const base::Error& error) {
    return error.what();
  }
  return "";
}

TEST(LoadVector, IsAMatrixOfOneRow) {
  const std::vector<std::pair<DType, const char*>> types = {
      {DType::kF32, "f32"}, {DType::kF16, "f16"}, {DType::kBF16, "bf16"}};
  for (const auto& [dtype, format] : types) {
    Weights weights = weights_of({zeros("b", dtype, {64})});
    const Matrix vector = load_vector(weights, "b", 64);
    EXPECT_EQ(vector.format, find_format(format));
    EXPECT_EQ(vector.rows, 1);
    EXPECT_EQ(vector.cols, 64);
  }
}

TEST(LoadVector, EveryOtherTypeIsRefusedWithItsName) {
  for (const DType dtype : {DType::kF64, DType::kI8, DType::kI16, DType::kI32, DType::kI64, DType::kU8,
                            DType::kU16, DType::kU32, DType::kU64, DType::kBool}) {
    const std::string error = vector_error(dtype, {64});
    EXPECT_NE(error.find("F32, F16 or BF16 for model.norm.weight"), std::string::npos) << error;
    EXPECT_NE(error.find(tensor::name(dtype)), std::string::npos) << error;
  }
  EXPECT_NE(vector_error(DType::kF32, {63}).find("model.norm.weight"), std::string::npos);
  EXPECT_NE(vector_error(DType::kF32, {1, 64}).find("model.norm.weight"), std::string::npos);
}

TEST(UndoRopeInterleave, PairsComeApart) {
  // Two heads of four rows: stored rows 0,1,2,3 hold rows 0,2,1,3 of the head.
  EXPECT_EQ(undo_rope_interleave(8, 4), (std::vector<int32_t>{0, 2, 1, 3, 4, 6, 5, 7}));
  EXPECT_EQ(undo_rope_interleave(6, 6), (std::vector<int32_t>{0, 2, 4, 1, 3, 5}));
  EXPECT_THROW(undo_rope_interleave(6, 4), base::Error);
}

}  // namespace
}  // namespace penstock::quant
