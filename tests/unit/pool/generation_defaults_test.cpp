#include "pool/generation_defaults.h"

#include <fstream>

#include <gtest/gtest.h>
#include <unistd.h>

#include "pool/loader.h"

namespace penstock::pool {
namespace {

using base::Json;

TEST(GenerationDefaults, ReadsTheFormOfGenerationConfig) {
  const auto read = read_generation_config(base::parse_python_json(
      R"({"temperature": 0.7, "top_p": 0.8, "top_k": 20, "min_p": 0.05, "repetition_penalty": 1.1})",
      "test"));
  EXPECT_EQ(read.temperature, 0.7f);
  EXPECT_EQ(read.top_p, 0.8f);
  EXPECT_EQ(read.top_k, 20);
  EXPECT_EQ(read.min_p, 0.05f);
  EXPECT_EQ(read.repetition_penalty, 1.1f);
}

TEST(GenerationDefaults, OnlyFiniteNumbersCount) {
  const auto read = read_generation_config(base::parse_python_json(
      R"({"temperature": true, "top_p": "0.8", "top_k": NaN, "min_p": Infinity, "repetition_penalty": null})",
      "test"));
  EXPECT_FALSE(read.temperature || read.top_p || read.top_k || read.min_p || read.repetition_penalty);
  EXPECT_FALSE(read_generation_config(Json{{"top_k", 1e30}}).top_k);
  EXPECT_FALSE(read_generation_config(Json{{"top_k", -1}}).top_k);
  EXPECT_FALSE(read_generation_config(Json(nullptr)).temperature);
}

TEST(GenerationDefaults, NoSamplingIsGreedy) {
  EXPECT_EQ(read_generation_config(Json{{"do_sample", false}, {"temperature", 0.7}}).temperature, 0.0f);
  EXPECT_EQ(read_generation_config(Json{{"do_sample", true}, {"temperature", 0.7}}).temperature, 0.7f);
}

TEST(GenerationDefaults, SettingsThenTheModelsFileThenTheAlias) {
  LoadOptions options;
  options.set_defaults = {"settings", {.temperature = 0.1f}};
  options.recommended_defaults = {"alias x", {.temperature = 0.3f, .top_p = 0.3f, .min_p = 0.3f}};
  const auto sources = defaults_sources(options, {.temperature = 0.2f, .top_p = 0.2f});
  const GenerationDefaults combined = combine(sources);
  EXPECT_EQ(combined.temperature, 0.1f);
  EXPECT_EQ(combined.top_p, 0.2f);
  EXPECT_EQ(combined.min_p, 0.3f);
  EXPECT_FALSE(combined.top_k);
  EXPECT_EQ(explain(sources), (Json{{"temperature", {{"value", 0.1}, {"from", "settings"}}},
                                    {"top_p", {{"value", 0.2}, {"from", "generation_config.json"}}},
                                    {"top_k", {{"value", 0}, {"from", "built in"}}},
                                    {"min_p", {{"value", 0.3}, {"from", "alias x"}}},
                                    {"repetition_penalty", {{"value", 1}, {"from", "built in"}}}}));
}

TEST(GenerationDefaults, OfAModelDirectory) {
  const auto folder = std::filesystem::path(::testing::TempDir()) / ("defaults_" + std::to_string(getpid()));
  std::filesystem::create_directories(folder);
  EXPECT_FALSE(generation_config_of(folder).temperature);
  std::ofstream(folder / "generation_config.json") << R"({"temperature": 0.6})";
  EXPECT_EQ(generation_config_of(folder).temperature, 0.6f);
  EXPECT_FALSE(generation_config_of(folder / "model.gguf").temperature);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace penstock::pool
