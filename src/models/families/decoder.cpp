#include "models/families/decoder.h"

#include <cmath>

#include "base/error.h"

namespace penstock::models {
namespace {

// Far above every model that there is: a file must not make the plan of a billion layers before its tensors
// are looked at.
constexpr int64_t kMostLayers = 4096, kMostHeadDim = 1 << 14;

using base::Code;
using base::Error;
using base::Json;

/// The dimensions of a head that are turned.
int32_t rope_dims(int32_t head_dim, double partial) {
  const double dims = std::trunc(head_dim * partial);
  if (!(dims >= 2 && dims <= head_dim) || std::fmod(dims, 2) != 0) {
    throw Error(Code::kInvalidRequest,
                "[models.config] expected partial_rotary_factor to turn an even number of a head's " +
                    std::to_string(head_dim) + " dimensions; got " + std::to_string(partial));
  }
  return static_cast<int32_t>(dims);
}

}  // namespace

ops::Activation read_activation(ConfigReader& config, const char* key, const char* otherwise) {
  const std::string name = config.text_or(key, otherwise);
  if (name == "silu" || name == "swish") return ops::Activation::kSilu;
  if (name == "gelu") return ops::Activation::kGelu;
  if (name == "gelu_pytorch_tanh" || name == "gelu_new" || name == "gelu_fast")
    return ops::Activation::kGeluTanh;
  throw Error(
      Code::kUnsupported,
      std::string("[models.config] expected silu, gelu or gelu_pytorch_tanh as ") + key + "; got " + name);
}

AttentionSpec read_attention(ConfigReader& config, int64_t hidden) {
  AttentionSpec attention;
  attention.q_heads = static_cast<int32_t>(config.positive("num_attention_heads"));
  attention.kv_heads = static_cast<int32_t>(config.positive_or("num_key_value_heads", attention.q_heads));
  const int64_t head_dim = config.positive_or("head_dim", hidden / attention.q_heads);
  if (head_dim < 2 || head_dim % 2 != 0 || head_dim > kMostHeadDim) {
    throw Error(Code::kInvalidRequest, "[models.config] expected an even head_dim from 2 to " +
                                           std::to_string(kMostHeadDim) + "; got " +
                                           std::to_string(head_dim));
  }
  attention.head_dim = static_cast<int32_t>(head_dim);
  if (attention.q_heads % attention.kv_heads != 0) {
    throw Error(Code::kInvalidRequest,
                "[models.config] expected num_attention_heads to be a multiple of num_key_value_heads; got " +
                    std::to_string(attention.q_heads) + " and " + std::to_string(attention.kv_heads));
  }
  attention.scale = static_cast<float>(1 / std::sqrt(static_cast<double>(attention.head_dim)));
  attention.rope = 0;
  return attention;
}

size_t read_layer_count(ConfigReader& config) {
  const int64_t layers = config.positive("num_hidden_layers");
  if (layers > kMostLayers) {
    throw Error(Code::kInvalidRequest, "[models.config] expected at most " + std::to_string(kMostLayers) +
                                           " as num_hidden_layers; got " + std::to_string(layers));
  }
  return static_cast<size_t>(layers);
}

Json rope_parameters(ConfigReader& config) {
  const Json* parameters = config.find("rope_parameters");
  const Json* scaling = config.find("rope_scaling");
  if (parameters != nullptr) return *parameters;
  return scaling != nullptr ? *scaling : Json(nullptr);
}

ModelSpec read_decoder(ConfigReader& config, const DecoderDefaults& defaults) {
  ModelSpec spec;
  spec.vocab = static_cast<int32_t>(config.positive("vocab_size"));
  spec.hidden = config.positive("hidden_size");
  spec.max_position = static_cast<int32_t>(
      defaults.max_position == 0 ? config.positive("max_position_embeddings")
                                 : config.positive_or("max_position_embeddings", defaults.max_position));
  spec.norm_eps = static_cast<float>(config.number_or("rms_norm_eps", defaults.norm_eps));
  spec.tied_head = config.flag_or("tie_word_embeddings", defaults.tied_head);
  LayerSpec layer;
  layer.attention = read_attention(config, spec.hidden);
  layer.ffn.width = config.positive("intermediate_size");
  layer.ffn.activation = read_activation(config, defaults.activation_key, defaults.activation);
  spec.layers.assign(read_layer_count(config), layer);
  const Json parameters = rope_parameters(config);
  double partial = config.number_or("partial_rotary_factor", 1);
  if (parameters.is_object()) partial = ConfigReader(parameters).number_or("partial_rotary_factor", partial);
  RopeContext context;
  context.dims = rope_dims(layer.attention.head_dim, partial);
  context.theta = config.number_or("rope_theta", defaults.rope_theta);
  context.max_position = spec.max_position;
  // Keyed by layer type (gemma3): the family reads each entry itself.
  if (!parameters.is_object() || !parameters.contains("full_attention")) {
    spec.ropes.push_back(make_rope(parameters, context));
  }
  return spec;
}

std::vector<bool> sliding_layers(ConfigReader& config, size_t n_layers) {
  const Json* types = config.find("layer_types");
  if (types == nullptr) return {};
  std::vector<bool> sliding;
  for (const Json& type : *types) {
    if (type != "sliding_attention" && type != "full_attention") {
      throw Error(
          Code::kUnsupported,
          "[models.config] expected full_attention or sliding_attention in layer_types; got " + type.dump());
    }
    sliding.push_back(type == "sliding_attention");
  }
  if (sliding.size() != n_layers) {
    throw Error(Code::kInvalidRequest, "[models.config] expected one layer_types entry for each of " +
                                           std::to_string(n_layers) + " layers; got " +
                                           std::to_string(sliding.size()));
  }
  return sliding;
}

void set_windows(ModelSpec& spec, const std::vector<bool>& sliding, int64_t window) {
  for (size_t i = 0; i < spec.layers.size(); ++i) {
    if (i < sliding.size() && sliding[i]) spec.layers[i].attention.window = static_cast<int32_t>(window);
  }
}

}  // namespace penstock::models
