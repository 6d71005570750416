// The families, one entry each: model_type of config.json and the function that reads it.
#pragma once

#include <array>

#include "models/family.h"

namespace penstock::models {

ModelSpec read_llama(ConfigReader& config);
ModelSpec read_mistral(ConfigReader& config);
ModelSpec read_qwen2(ConfigReader& config);
ModelSpec read_qwen3(ConfigReader& config);
ModelSpec read_gemma3(ConfigReader& config);
ModelSpec read_bert(ConfigReader& config);

inline constexpr std::array kFamilies = {
    Family{"llama", read_llama}, Family{"mistral", read_mistral},    Family{"qwen2", read_qwen2},
    Family{"qwen3", read_qwen3}, Family{"gemma3_text", read_gemma3}, Family{"gemma3", read_gemma3},
    Family{"bert", read_bert},
};

}  // namespace penstock::models
