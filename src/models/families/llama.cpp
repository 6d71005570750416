// llama (also SmolLM2) and mistral. Reference: transformers and mlx-lm, which agree.
#include "models/families/decoder.h"
#include "models/families/list.h"

namespace penstock::models {

ModelSpec read_llama(ConfigReader& config) {
  ModelSpec spec = read_decoder(config, {.norm_eps = 1e-6});
  spec.family = "llama";
  const bool attention_bias = config.flag_or("attention_bias", false);
  const bool mlp_bias = config.flag_or("mlp_bias", false);
  for (LayerSpec& layer : spec.layers) {
    layer.attention.qkv_bias = layer.attention.o_bias = attention_bias;
    layer.ffn.bias = mlp_bias;
  }
  return spec;
}

ModelSpec read_mistral(ConfigReader& config) {
  ModelSpec spec = read_decoder(config, {.norm_eps = 1e-6});
  spec.family = "mistral";
  const int64_t window = config.positive_or("sliding_window", 0);
  std::vector<bool> sliding = sliding_layers(config, spec.layers.size());
  if (sliding.empty()) sliding.assign(spec.layers.size(), window > 0);
  set_windows(spec, sliding, window);
  return spec;
}

}  // namespace penstock::models
