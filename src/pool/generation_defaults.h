// What requests take where they do not say how to draw tokens: values of several places, the strongest first.
// Plain data; nothing here is checked against a model.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>

#include "base/json.h"

namespace penstock::pool {

/// Absent where a place does not say.
struct GenerationDefaults {
  std::optional<float> temperature, top_p, min_p, repetition_penalty;
  std::optional<int32_t> top_k;
};

/// One place that may say, "generation_config.json".
struct DefaultsSource {
  std::string name;
  GenerationDefaults values;
};

/// From an object in the form of generation_config.json; "do_sample": false is temperature 0. Values that are
/// no finite numbers do not count: they are slips of their authors.
GenerationDefaults read_generation_config(const base::Json& config);

/// Of the generation_config.json of a model directory; nothing for a GGUF file or where there is none.
GenerationDefaults generation_config_of(const std::filesystem::path& model);

/// Each value from the first source that has it.
GenerationDefaults combine(std::span<const DefaultsSource> sources);

/// What holds where no source says: the whole distribution, no penalty.
inline constexpr GenerationDefaults kBuiltInDefaults{
    .temperature = 1.0f, .top_p = 1.0f, .min_p = 0.0f, .repetition_penalty = 1.0f, .top_k = 0};

/// {"temperature": {"value": 0.2, "from": "alias smollm2"}, ...} with every value; "built in" where no source
/// says.
base::Json explain(std::span<const DefaultsSource> sources);

}  // namespace penstock::pool
