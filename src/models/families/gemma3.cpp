// gemma3 text. Reference: transformers (mlx-lm agrees): norm weights are stored minus one, local layers have
// their own rope, every block is normed before and after.
#include <cmath>

#include "base/error.h"
#include "models/families/decoder.h"
#include "models/families/list.h"

namespace penstock::models {
namespace {

using base::Json;

std::vector<bool> local_layers(ConfigReader& config, size_t n_layers) {
  const int64_t pattern =
      config.positive_or("sliding_window_pattern", config.positive_or("_sliding_window_pattern", 6));
  std::vector<bool> sliding = sliding_layers(config, n_layers);
  if (sliding.empty()) {
    for (size_t i = 0; i < n_layers; ++i) sliding.push_back((static_cast<int64_t>(i) + 1) % pattern != 0);
  }
  return sliding;
}

/// Rope 0 for full attention, rope 1 for sliding attention.
void read_ropes(ConfigReader& config, ModelSpec& spec) {
  const int32_t dims = spec.layers.front().attention.head_dim;
  const double global = config.number_or("rope_theta", 1000000),
               local = config.number_or("rope_local_base_freq", 10000);
  const Json parameters = rope_parameters(config);
  const bool by_type = parameters.is_object() && parameters.contains("full_attention");
  const auto entry = [&](const char* key) {
    return parameters.contains(key) ? parameters[key] : Json(nullptr);
  };
  spec.ropes = {
      make_rope(by_type ? entry("full_attention") : parameters, {dims, global, spec.max_position}),
      make_rope(by_type ? entry("sliding_attention") : Json(nullptr), {dims, local, spec.max_position})};
}

}  // namespace

ModelSpec read_gemma3(ConfigReader& config) {
  const Json with_defaults = [&] {
    Json filled = {{"vocab_size", 262208},    {"hidden_size", 2304},      {"intermediate_size", 9216},
                   {"num_hidden_layers", 26}, {"num_attention_heads", 8}, {"num_key_value_heads", 4},
                   {"head_dim", 256}};
    for (auto& [key, value] : filled.items()) {
      if (const Json* given = config.find(key)) value = *given;
    }
    for (const char* key : {"max_position_embeddings", "rms_norm_eps", "tie_word_embeddings",
                            "hidden_activation", "rope_parameters", "rope_scaling", "rope_theta"}) {
      if (const Json* given = config.find(key)) filled[key] = *given;
    }
    return filled;
  }();
  ConfigReader decoder(with_defaults);
  ModelSpec spec = read_decoder(decoder, {.rope_theta = 1000000,
                                          .max_position = 131072,
                                          .norm_eps = 1e-6,
                                          .tied_head = true,
                                          .activation_key = "hidden_activation",
                                          .activation = "gelu_pytorch_tanh"});
  spec.family = "gemma3";
  spec.norm_offset = 1;
  spec.norms = {"input_layernorm", "post_attention_layernorm", "pre_feedforward_layernorm",
                "post_feedforward_layernorm"};
  spec.embed_scale = static_cast<float>(std::sqrt(static_cast<double>(spec.hidden)));
  spec.final_softcap = static_cast<float>(config.number_or("final_logit_softcapping", 0));
  const auto scale = static_cast<float>(1 / std::sqrt(config.number_or("query_pre_attn_scalar", 256)));
  const auto softcap = static_cast<float>(config.number_or("attn_logit_softcapping", 0));
  const bool bias = config.flag_or("attention_bias", false);
  for (LayerSpec& layer : spec.layers) {
    layer.attention.qk_norm = true;
    layer.attention.scale = scale;
    layer.attention.softcap = softcap;
    layer.attention.qkv_bias = layer.attention.o_bias = bias;
  }
  set_windows(spec, local_layers(config, spec.layers.size()), config.positive_or("sliding_window", 4096));
  read_ropes(config, spec);
  for (LayerSpec& layer : spec.layers) layer.attention.rope = layer.attention.window > 0 ? 1 : 0;
  return spec;
}

}  // namespace penstock::models
