#include "models/family.h"

#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "base/error.h"
#include "models/lower.h"
#include "models/model_files.h"

namespace penstock::models {
namespace {

using base::Json;

Json llama() {
  return {{"model_type", "llama"},   {"vocab_size", 64},         {"hidden_size", 32},
          {"num_hidden_layers", 2},  {"num_attention_heads", 4}, {"num_key_value_heads", 2},
          {"intermediate_size", 64}, {"rms_norm_eps", 1e-5},     {"max_position_embeddings", 128},
          {"rope_theta", 10000.0}};
}

std::string refusal(const Json& config) {
  try {
    read_spec(config);
  } catch (const base::Error& error) {
    return error.what();
  }
  return "";
}

TEST(Family, ML_14_UnknownModelTypeNamesNearOnes) {
  Json config = llama();
  config["model_type"] = "qwen9";
  const std::string text = refusal(config);
  EXPECT_NE(text.find("qwen9"), std::string::npos);
  EXPECT_LT(text.find("qwen2"), text.find("gemma3"));  // nearest first
}

TEST(Family, ML_15_ModelsWithCodeAreRefused) {
  Json config = llama();
  config["model_file"] = "../evil.py";
  EXPECT_NE(refusal(config).find("model_file"), std::string::npos);
}

TEST(Family, ML_13_DtypeKeysOfEitherSpellingAreHarmless) {
  for (const char* key : {"dtype", "torch_dtype"}) {
    Json config = llama();
    config[key] = "bfloat16";
    EXPECT_TRUE(read_spec(config).unknown_keys.empty()) << key;
  }
}

TEST(Family, ML_10_NestedTextConfigIsTheOneThatCounts) {
  const Json config = {{"model_type", "gemma3"},
                       {"vocab_size", 9},
                       {"text_config",
                        {{"model_type", "gemma3_text"},
                         {"vocab_size", 64},
                         {"hidden_size", 32},
                         {"num_hidden_layers", 6},
                         {"num_attention_heads", 2},
                         {"num_key_value_heads", 1},
                         {"head_dim", 16},
                         {"intermediate_size", 64}}}};
  const ModelSpec spec = read_spec(config);
  EXPECT_EQ(spec.vocab, 64);
  EXPECT_EQ(spec.layers[0].attention.window, 4096);
  EXPECT_EQ(spec.layers[5].attention.window, 0);
}

TEST(Family, UnknownKeysAreNamedAndKeysThatChangeTheMathsRefused) {
  Json config = llama();
  config["my_own_note"] = "x";
  EXPECT_EQ(read_spec(config).unknown_keys, std::vector<std::string>{"my_own_note"});
  const Json refused = {
      {"logit_scale", 0.5}, {"residual_multiplier", 0.2}, {"num_local_experts", 8}, {"clip_qkv", 8.0}};
  for (const auto& [key, value] : refused.items()) {
    Json changed = llama();
    changed[key] = value;
    EXPECT_NE(refusal(changed).find(key), std::string::npos) << key;
  }
}

TEST(Family, WrongTypesAndMissingKeysAreNamed) {
  for (const char* key :
       {"hidden_size", "num_hidden_layers", "num_attention_heads", "vocab_size", "intermediate_size"}) {
    Json config = llama();
    config[key] = "32";
    EXPECT_NE(refusal(config).find(key), std::string::npos);
    config.erase(key);
    EXPECT_NE(refusal(config).find(key), std::string::npos);
  }
}

TEST(Family, SizesThatNoModelHasAreRefusedBeforeAPlanIsMadeOfThem) {
  for (const auto& [key, value] :
       std::vector<std::pair<const char*, Json>>{{"num_hidden_layers", 2147483647},
                                                 {"num_hidden_layers", 0},
                                                 {"num_attention_heads", 0},
                                                 {"head_dim", 3},
                                                 {"head_dim", 1 << 20},
                                                 {"partial_rotary_factor", 0.1},
                                                 {"partial_rotary_factor", 1e300}}) {
    Json config = llama();
    config[key] = value;
    EXPECT_NE(refusal(config).find(key), std::string::npos) << key << ' ' << value;
  }
  Json config = llama();
  config["partial_rotary_factor"] = 0.5;
  EXPECT_EQ(read_spec(config).ropes.front().dims, 4);
}

TEST(Family, UnknownRopeTypesAndParametersAreRefused) {
  Json config = llama();
  config["rope_scaling"] = {{"rope_type", "longrope"}, {"factor", 2.0}};
  EXPECT_NE(refusal(config).find("longrope"), std::string::npos);
  config["rope_scaling"] = {{"rope_type", "linear"}, {"factor", 2.0}, {"wobble", 3}};
  EXPECT_NE(refusal(config).find("wobble"), std::string::npos);
  config["rope_scaling"] = {{"factor", 4.0}};  // of which type it does not say
  EXPECT_NE(refusal(config).find("factor"), std::string::npos);
  config["rope_scaling"] = {{"type", "default"}, {"mrope_section", {16, 24, 24}}};
  EXPECT_FALSE(read_spec(config).layers.empty());
}

TEST(Lowering, EqualWindowsShareAGroup) {
  Json config = llama();
  config["model_type"] = "mistral";
  config["sliding_window"] = 16;
  config["layer_types"] = {"sliding_attention", "full_attention"};
  const Plan plan = lower(read_spec(config));
  ASSERT_EQ(plan.kv_groups.size(), 2u);
  EXPECT_EQ(plan.kv_groups[0].window, 16);
  EXPECT_EQ(plan.kv_groups[1].window, 0);
  EXPECT_NE(describe(plan).find("window=16"), std::string::npos);
}

TEST(ModelFiles, ML_02_TheConfigDecidesNotThePath) {
  const auto folder = std::filesystem::temp_directory_path() / "vl-gemma4-qat";
  std::filesystem::create_directories(folder);
  Json config = llama();
  config["model_type"] = "llamma";
  std::ofstream(folder / "config.json") << config.dump();
  try {
    open_model(folder);
    FAIL();
  } catch (const base::Error& error) {
    EXPECT_NE(std::string(error.what()).find("llamma"), std::string::npos) << error.what();
  }
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace penstock::models
