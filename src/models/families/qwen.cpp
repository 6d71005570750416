// qwen2 (also Qwen2.5) and qwen3. Reference: transformers and mlx-lm, which agree; the sliding window follows
// transformers (layers from max_window_layers on, when use_sliding_window is set).
#include "models/families/decoder.h"
#include "models/families/list.h"

namespace penstock::models {
namespace {

void read_windows(ConfigReader& config, ModelSpec& spec) {
  const bool used = config.flag_or("use_sliding_window", false);
  const int64_t window = config.positive_or("sliding_window", 4096);
  const base::Json* first = config.find("max_window_layers");
  const size_t first_layer = first != nullptr && first->is_number_unsigned() ? first->get<size_t>() : 28;
  std::vector<bool> sliding = sliding_layers(config, spec.layers.size());
  if (!used) return;
  if (sliding.empty()) {
    for (size_t i = 0; i < spec.layers.size(); ++i) sliding.push_back(i >= first_layer);
  }
  set_windows(spec, sliding, window);
}

}  // namespace

ModelSpec read_qwen2(ConfigReader& config) {
  ModelSpec spec = read_decoder(config, {.max_position = 32768, .norm_eps = 1e-6});
  spec.family = "qwen2";
  for (LayerSpec& layer : spec.layers) layer.attention.qkv_bias = true;
  read_windows(config, spec);
  return spec;
}

ModelSpec read_qwen3(ConfigReader& config) {
  ModelSpec spec = read_decoder(config, {.max_position = 32768, .norm_eps = 1e-6});
  spec.family = "qwen3";
  const bool bias = config.flag_or("attention_bias", false);
  for (LayerSpec& layer : spec.layers) {
    layer.attention.qk_norm = true;
    layer.attention.qkv_bias = layer.attention.o_bias = bias;
  }
  read_windows(config, spec);
  return spec;
}

}  // namespace penstock::models
