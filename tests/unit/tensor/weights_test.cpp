#include "tensor/weights.h"

#include <gmock/gmock.h>

#include "unit/tensor/temporary_directory.h"

namespace penstock::tensor {
namespace {

using testing::HasSubstr;
using testing::Not;

Weights three() {
  std::vector<OwnedTensor> tensors;
  for (const char* name : {"model.norm.weight", "model.layers.0.q_proj.weight", "rope.inv_freq"}) {
    tensors.push_back({name, DType::kF32, {2}, std::vector<std::byte>(8)});
  }
  return Weights(Checkpoint::in_memory(std::move(tensors)));
}

TEST(Weights, StrictBothWays) {
  Weights weights = three();
  EXPECT_EQ(weights.take("model.norm.weight", {2}).bytes.size(), 8u);
  EXPECT_THAT(error_of([&] { weights.finish(); }),
              HasSubstr("got 2 without: model.layers.0.q_proj.weight, rope"));
  Weights layer = weights.scope("model.").scope("layers.0.");
  EXPECT_TRUE(layer.has("q_proj.weight"));
  EXPECT_FALSE(layer.has("norm.weight"));
  layer.take_any("q_proj.weight");
  layer.take_any("q_proj.weight");
  EXPECT_THAT(error_of([&] { weights.finish(); }), HasSubstr("got 1 without: rope.inv_freq"));
  weights.ignore("*.inv_*");
  EXPECT_EQ(error_of([&] { weights.finish(); }), "");
}

TEST(Weights, MissingNamesNearOnes) {
  Weights weights = three();
  const std::string error = error_of([&] { weights.scope("model.layers.0.").take_any("k_proj.weight"); });
  EXPECT_THAT(error, HasSubstr("model.layers.0.k_proj.weight"));
  EXPECT_THAT(error, HasSubstr("near names: model.layers.0.q_proj.weight"));
  EXPECT_THAT(error, Not(HasSubstr("inv_freq")));
}

TEST(Weights, WrongShape) {
  Weights weights = three();
  EXPECT_THAT(error_of([&] {
                weights.take("model.norm.weight", {1, 2});
              }),
              HasSubstr("expected shape [1, 2] of model.norm"));
}

TEST(Weights, LeftoversAreCountedAndTheFirstTenNamed) {
  std::vector<OwnedTensor> tensors;
  for (int i = 10; i < 25; ++i) tensors.push_back({"t" + std::to_string(i), DType::kU8, {0}, {}});
  const std::string error = error_of([&] { Weights(Checkpoint::in_memory(std::move(tensors))).finish(); });
  EXPECT_THAT(error, HasSubstr("15 without: t10, "));
  EXPECT_THAT(error, HasSubstr("t19, ..."));
  EXPECT_THAT(error, Not(HasSubstr("t20")));
}

TEST(Weights, PatternsMatchWholeNames) {
  const auto left = [](const char* pattern) {
    Weights weights = three();
    weights.ignore(pattern);
    return error_of([&] { weights.finish(); });
  };
  EXPECT_EQ(left("*"), "");
  EXPECT_THAT(left("model"), HasSubstr("got 3"));
  EXPECT_THAT(left("model.*"), HasSubstr("got 1"));
  EXPECT_THAT(left("*.weight"), HasSubstr("got 1"));
  EXPECT_THAT(left("m*l.*q*ht"), HasSubstr("got 2"));
  EXPECT_THAT(left("rope.inv_freq"), HasSubstr("got 2"));
}

}  // namespace
}  // namespace penstock::tensor
