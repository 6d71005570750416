#include "models/lower.h"

#include <algorithm>
#include <string>

namespace penstock::models {
namespace {

class Lowering {
 public:
  explicit Lowering(const ModelSpec& spec) : spec_(spec) {}

  Plan run() {
    plan_.family = spec_.family;
    plan_.vocab = spec_.vocab;
    plan_.hidden = static_cast<int32_t>(spec_.hidden);
    plan_.max_position = spec_.max_position;
    plan_.ropes = spec_.ropes;
    hidden_ = buffer("hidden", spec_.hidden);
    const ops::WeightId embedding = matrix("model.embed_tokens", spec_.vocab, spec_.hidden);
    plan_.operations.push_back(ops::Embed{embedding, spec_.embed_scale, hidden_});
    for (size_t i = 0; i < spec_.layers.size(); ++i) {
      layer(spec_.layers[i], "model.layers." + std::to_string(i) + ".");
    }
    const ops::Norm norm = this->norm("model.norm", spec_.hidden);
    const ops::WeightId head = spec_.tied_head ? embedding : matrix("lm_head", spec_.vocab, spec_.hidden);
    plan_.operations.push_back(ops::Head{hidden_, norm, head, spec_.final_softcap});
    return std::move(plan_);
  }

 private:
  void layer(const LayerSpec& layer, const std::string& prefix) {
    const AttentionSpec& a = layer.attention;
    const std::string self = prefix + "self_attn.";
    const int64_t q_width = int64_t{a.q_heads} * a.head_dim, kv_width = int64_t{a.kv_heads} * a.head_dim;
    const ops::BufferId q = buffer("q", q_width), o = buffer("o", q_width);
    ops::AttnIn in{.in = hidden_, .out_q = q};
    in.norm = norm(prefix + spec_.norms.attention, spec_.hidden);
    in.q = linear(self + "q_proj", q_width, spec_.hidden, a.qkv_bias);
    in.k = linear(self + "k_proj", kv_width, spec_.hidden, a.qkv_bias);
    in.v = linear(self + "v_proj", kv_width, spec_.hidden, a.qkv_bias);
    if (a.qk_norm) {
      in.q_norm = norm(self + "q_norm", a.head_dim);
      in.k_norm = norm(self + "k_norm", a.head_dim);
    }
    in.rope = a.rope;
    in.kv_layer = kv_layer(a);
    in.q_heads = a.q_heads;
    in.kv_heads = a.kv_heads;
    in.head_dim = a.head_dim;
    plan_.operations.push_back(in);
    plan_.operations.push_back(
        ops::Attend{q, o, in.kv_layer, a.q_heads, a.kv_heads, a.head_dim, a.scale, a.window, a.softcap});
    plan_.operations.push_back(ops::Project{o, hidden_,
                                            linear(self + "o_proj", spec_.hidden, q_width, a.o_bias),
                                            norm(prefix, spec_.norms.attention_post, spec_.hidden)});
    mlp(layer.ffn, prefix);
  }

  void mlp(const FfnSpec& ffn, const std::string& prefix) {
    ops::Mlp mlp{.residual = hidden_, .norm = norm(prefix + spec_.norms.ffn, spec_.hidden)};
    mlp.gate = linear(prefix + "mlp.gate_proj", ffn.width, spec_.hidden, ffn.bias);
    mlp.up = linear(prefix + "mlp.up_proj", ffn.width, spec_.hidden, ffn.bias);
    mlp.down = linear(prefix + "mlp.down_proj", spec_.hidden, ffn.width, ffn.bias);
    mlp.activation = ffn.activation;
    mlp.post_norm = norm(prefix, spec_.norms.ffn_post, spec_.hidden);
    plan_.operations.push_back(mlp);
  }

  ops::BufferId buffer(const std::string& name, int64_t width) {
    const auto same = [&](const BufferSpec& b) { return b.name == name && b.width == width; };
    const auto it = std::find_if(plan_.buffers.begin(), plan_.buffers.end(), same);
    if (it != plan_.buffers.end()) return static_cast<ops::BufferId>(it - plan_.buffers.begin());
    plan_.buffers.push_back({name, width});
    return static_cast<ops::BufferId>(plan_.buffers.size() - 1);
  }

  ops::WeightId matrix(const std::string& name, int64_t rows, int64_t cols) {
    plan_.weights.push_back({name, rows, cols, false});
    return static_cast<ops::WeightId>(plan_.weights.size() - 1);
  }

  ops::WeightId vector(const std::string& name, int64_t cols) {
    plan_.weights.push_back({name, 1, cols, true});
    return static_cast<ops::WeightId>(plan_.weights.size() - 1);
  }

  ops::Linear linear(const std::string& name, int64_t rows, int64_t cols, bool bias) {
    const ops::WeightId weight = matrix(name, rows, cols);
    return {weight, bias ? vector(name + ".bias", rows) : ops::kNoWeight};
  }

  ops::Norm norm(const std::string& name, int64_t width) {
    return {vector(name + ".weight", width), spec_.norm_eps, spec_.norm_offset};
  }

  ops::Norm norm(const std::string& prefix, const std::string& name, int64_t width) {
    return name.empty() ? ops::Norm{} : norm(prefix + name, width);
  }

  int32_t kv_layer(const AttentionSpec& a) {
    const auto same = [&](const KvGroup& g) {
      return g.kv_heads == a.kv_heads && g.head_dim == a.head_dim && g.window == a.window;
    };
    auto it = std::find_if(plan_.kv_groups.begin(), plan_.kv_groups.end(), same);
    if (it == plan_.kv_groups.end()) {
      plan_.kv_groups.push_back({0, a.kv_heads, a.head_dim, a.window});
      it = plan_.kv_groups.end() - 1;
    }
    plan_.kv_layers.push_back({static_cast<int32_t>(it - plan_.kv_groups.begin()), it->n_layers++});
    return static_cast<int32_t>(plan_.kv_layers.size() - 1);
  }

  const ModelSpec& spec_;
  Plan plan_;
  ops::BufferId hidden_ = 0;
};

}  // namespace

Plan lower(const ModelSpec& spec) {
  return Lowering(spec).run();
}

}  // namespace penstock::models
