// What the plain decoder families share when they read config.json: dimensions, activation, windows, rope.
#pragma once

#include <string>
#include <vector>

#include "models/config_reader.h"
#include "models/rope.h"
#include "models/spec.h"

namespace penstock::models {

/// A family's own defaults where config.json may be silent; 0 means that the key must be there.
struct DecoderDefaults {
  double rope_theta = 10000;
  int32_t max_position = 0;
  double norm_eps = 1e-6;
  bool tied_head = false;
  const char* activation_key = "hidden_act";
  const char* activation = "silu";
};

/// Reads vocab_size, hidden_size, num_hidden_layers, heads, intermediate_size, rms_norm_eps, the activation
/// and one rope for all layers, and makes equal layers of them.
ModelSpec read_decoder(ConfigReader& config, const DecoderDefaults& defaults);

// What read_decoder() is made of, for families that have only part of it.
ops::Activation read_activation(ConfigReader& config, const char* key, const char* otherwise);
AttentionSpec read_attention(ConfigReader& config, int64_t hidden);
size_t read_layer_count(ConfigReader& config);

/// "sliding_attention" entries of layer_types; empty when the key is absent. Throws for other words or a
/// wrong count.
std::vector<bool> sliding_layers(ConfigReader& config, size_t n_layers);

/// Gives `window` to the layers that are marked.
void set_windows(ModelSpec& spec, const std::vector<bool>& sliding, int64_t window);

/// rope_parameters, else rope_scaling; null when neither is there.
base::Json rope_parameters(ConfigReader& config);

}  // namespace penstock::models
