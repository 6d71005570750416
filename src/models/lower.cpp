#include "models/lower.h"

#include <string>

#include "models/plan_builder.h"

namespace penstock::models {
namespace {

class Lowering {
 public:
  explicit Lowering(const ModelSpec& spec) : spec_(spec), builder_(spec) {}

  Plan run() {
    hidden_ = builder_.buffer("hidden", spec_.hidden);
    const ops::WeightId embedding = builder_.matrix("model.embed_tokens", spec_.vocab, spec_.hidden);
    builder_.add(ops::Embed{embedding, spec_.embed_scale, hidden_});
    for (size_t i = 0; i < spec_.layers.size(); ++i) {
      layer(spec_.layers[i], "model.layers." + std::to_string(i) + ".");
    }
    const ops::Norm norm = builder_.norm("model.norm", spec_.hidden);
    const ops::WeightId head =
        spec_.tied_head ? embedding : builder_.matrix("lm_head", spec_.vocab, spec_.hidden);
    builder_.add(ops::Head{hidden_, norm, head, spec_.final_softcap});
    return builder_.take();
  }

 private:
  void layer(const LayerSpec& layer, const std::string& prefix) {
    const AttentionSpec& a = layer.attention;
    const std::string self = prefix + "self_attn.";
    const int64_t q_width = int64_t{a.q_heads} * a.head_dim, kv_width = int64_t{a.kv_heads} * a.head_dim;
    const ops::BufferId q = builder_.buffer("q", q_width), o = builder_.buffer("o", q_width);
    ops::AttnIn in{.in = hidden_, .out_q = q};
    in.norm = norm(prefix, spec_.norms.attention);
    in.q = builder_.linear(self + "q_proj", q_width, spec_.hidden, a.qkv_bias);
    in.k = builder_.linear(self + "k_proj", kv_width, spec_.hidden, a.qkv_bias);
    in.v = builder_.linear(self + "v_proj", kv_width, spec_.hidden, a.qkv_bias);
    if (a.qk_norm) {
      in.q_norm = builder_.norm(self + "q_norm", a.head_dim);
      in.k_norm = builder_.norm(self + "k_norm", a.head_dim);
    }
    in.rope = a.rope;
    in.kv_layer = builder_.kv_layer(a);
    in.q_heads = a.q_heads;
    in.kv_heads = a.kv_heads;
    in.head_dim = a.head_dim;
    builder_.add(in);
    builder_.add(
        ops::Attend{q, o, in.kv_layer, a.q_heads, a.kv_heads, a.head_dim, a.scale, a.window, a.softcap});
    const ops::Linear out = builder_.linear(self + "o_proj", spec_.hidden, q_width, a.o_bias);
    builder_.add(ops::Project{o, hidden_, out, norm(prefix, spec_.norms.attention_post), {}});
    mlp(layer.ffn, prefix);
  }

  void mlp(const FfnSpec& ffn, const std::string& prefix) {
    ops::Mlp mlp{.residual = hidden_, .norm = norm(prefix, spec_.norms.ffn)};
    mlp.gate = builder_.linear(prefix + "mlp.gate_proj", ffn.width, spec_.hidden, ffn.bias);
    mlp.up = builder_.linear(prefix + "mlp.up_proj", ffn.width, spec_.hidden, ffn.bias);
    mlp.down = builder_.linear(prefix + "mlp.down_proj", spec_.hidden, ffn.width, ffn.bias);
    mlp.activation = ffn.activation;
    mlp.post_norm = norm(prefix, spec_.norms.ffn_post);
    builder_.add(mlp);
  }

  ops::Norm norm(const std::string& prefix, const std::string& name) {
    return builder_.norm(name.empty() ? "" : prefix + name, spec_.hidden);
  }

  const ModelSpec& spec_;
  PlanBuilder builder_;
  ops::BufferId hidden_ = 0;
};

}  // namespace

Plan lower(const ModelSpec& spec) {
  return spec.encoder ? lower_encoder(spec) : Lowering(spec).run();
}

}  // namespace penstock::models
