#include "quant/config.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace penstock::quant {
namespace {

Config parse(const char* text) {
  return Config::parse(base::parse_json(text, "config.json"));
}

std::string error_of(const char* text) {
  try {
    parse(text);
  } catch (const base::Error& error) {
    return error.what();
  }
  return "";
}

TEST(QuantConfig, NothingSaid) {
  EXPECT_FALSE(parse("{}").base);
  EXPECT_FALSE(parse(R"({"quantization": null})").base);
}

TEST(QuantConfig, DefaultsPerMode) {
  EXPECT_EQ(parse(R"({"quantization": {}})").base, (Params{"affine", 64, 4}));
  EXPECT_EQ(parse(R"({"quantization": {"mode": "mxfp4"}})").base, (Params{"mxfp4", 32, 4}));
  EXPECT_EQ(parse(R"({"quantization": {"mode": "mxfp8"}})").base, (Params{"mxfp8", 32, 8}));
  EXPECT_EQ(parse(R"({"quantization": {"mode": "nvfp4"}})").base, (Params{"nvfp4", 16, 4}));
  EXPECT_EQ(parse(R"({"quantization": {"group_size": 32, "bits": 6}})").base, (Params{"affine", 32, 6}));
}

TEST(QuantConfig, ReadsTheSectionsInOrder) {
  EXPECT_EQ(parse(R"({"quantization": {"bits": 3}, "quantization_config": {"bits": 8}})").base->bits, 3);
  EXPECT_EQ(parse(R"({"quantization_config": {"group_size": 64, "bits": 8}})").base->bits, 8);
  EXPECT_EQ(parse(R"({"text_config": {"quantization": {"bits": 5}}})").base->bits, 5);
  EXPECT_EQ(parse(R"({"text_config": {"quantization_config": {"bits": 2}}})").base->bits, 2);
}

TEST(QuantConfig, QT_11_OverridesByPath) {
  const Config config =
      parse(R"({"quantization": {"group_size": 64, "bits": 4, "mode": "mxfp4", "group_size": 32,
    "model.layers.0.mlp.gate": {"group_size": 64, "bits": 8}, "lm_head": false, "model.embed_tokens": true}})");
  // An override without a mode is affine, whatever the model's own mode.
  EXPECT_EQ(config.find_override("model.layers.0.mlp.gate"), (Params{"affine", 64, 8}));
  const auto head = config.find_override("lm_head");
  ASSERT_TRUE(head);
  EXPECT_FALSE(*head);
  EXPECT_EQ(config.find_override("model.embed_tokens"), config.base);
  EXPECT_FALSE(config.find_override("model.layers.1.mlp.gate"));
}

TEST(QuantConfig, ML_04_LanguageModelPrefixOnEitherSide) {
  const Config wrapped =
      parse(R"({"quantization": {"language_model.model.layers.3.mlp.down_proj": {"bits": 8}}})");
  EXPECT_EQ((*wrapped.find_override("model.layers.3.mlp.down_proj"))->bits, 8);
  EXPECT_EQ((*wrapped.find_override("language_model.model.layers.3.mlp.down_proj"))->bits, 8);
  EXPECT_EQ((*wrapped.find_override("model.language_model.layers.3.mlp.down_proj"))->bits, 8);
  EXPECT_FALSE(wrapped.find_override("model.layers.4.mlp.down_proj"));
  const Config plain = parse(R"({"quantization": {"model.layers.3.mlp.down_proj": {"bits": 6}}})");
  EXPECT_EQ((*plain.find_override("language_model.model.layers.3.mlp.down_proj"))->bits, 6);
}

TEST(QuantConfig, QT_12_ForeignMethodsAreNotSupported) {
  for (const char* method : {"gptq", "awq", "compressed-tensors", "bitnet", "fp8", "bitsandbytes"}) {
    const std::string text =
        std::string(R"({"quantization_config": {"bits": 4, "quant_method": ")") + method + "\"}}";
    const std::string error = error_of(text.c_str());
    EXPECT_NE(error.find("not supported"), std::string::npos) << error;
    EXPECT_NE(error.find(method), std::string::npos) << error;
  }
  EXPECT_EQ(parse(R"({"quantization_config": {"quant_method": "mxfp4"}})").base, (Params{"mxfp4", 32, 4}));
}

TEST(QuantConfig, RefusesWhatNoFormatHas) {
  EXPECT_NE(error_of(R"({"quantization": {"bits": 7}})"), "");
  EXPECT_NE(error_of(R"({"quantization": {"bits": "4"}})"), "");
  EXPECT_NE(error_of(R"({"quantization": {"group_size": 16}})"), "");
  EXPECT_NE(error_of(R"({"quantization": {"group_size": -64}})"), "");
  EXPECT_NE(error_of(R"({"quantization": {"mode": "mxfp4", "bits": 8}})"), "");
  EXPECT_NE(error_of(R"({"quantization": {"mode": "int4"}})"), "");
  EXPECT_NE(error_of(R"({"quantization": 4})"), "");
  EXPECT_NE(error_of(R"({"quantization": {"quantize_activations": true}})"), "");
  EXPECT_NE(error_of(R"({"quantization": {"lm_head": {"bits": 9}}})").find("lm_head"), std::string::npos);
}

}  // namespace
}  // namespace penstock::quant
