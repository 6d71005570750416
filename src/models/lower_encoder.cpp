// BERT and its kin: norms behind the residuals, every projection with a bias. A layer's keys and values are
// not needed after it, so all layers share one.
#include "models/lower.h"
#include "models/plan_builder.h"

namespace penstock::models {
namespace {

class EncoderLowering {
 public:
  explicit EncoderLowering(const ModelSpec& spec)
      : spec_(spec),
        encoder_(*spec.encoder),
        builder_(spec),
        hidden_(builder_.buffer("hidden", spec.hidden)) {}

  Plan run() {
    embed();
    kv_layer_ = builder_.kv_layer(spec_.layers.front().attention);
    for (size_t i = 0; i < spec_.layers.size(); ++i)
      layer(spec_.layers[i], encoder_.prefix + "encoder.layer." + std::to_string(i) + ".");
    pool();
    return builder_.take();
  }

 private:
  void embed() {
    const std::string name = encoder_.prefix + "embeddings.";
    ops::Embed embed{.out = hidden_};
    embed.table = builder_.matrix(name + "word_embeddings", spec_.vocab, spec_.hidden);
    embed.positions = builder_.matrix(name + "position_embeddings", encoder_.positions, spec_.hidden);
    embed.types = builder_.matrix(name + "token_type_embeddings", encoder_.token_types, spec_.hidden);
    embed.norm = builder_.layer_norm(name + "LayerNorm", spec_.hidden);
    builder_.add(embed);
  }

  void layer(const LayerSpec& layer, const std::string& prefix) {
    const AttentionSpec& a = layer.attention;
    const std::string self = prefix + "attention.self.", output = prefix + "attention.output.";
    const int64_t width = int64_t{a.q_heads} * a.head_dim;
    const ops::BufferId q = builder_.buffer("q", width), o = builder_.buffer("o", width);
    ops::AttnIn in{.in = hidden_, .out_q = q};
    in.q = builder_.linear(self + "query", width, spec_.hidden, true);
    in.k = builder_.linear(self + "key", width, spec_.hidden, true);
    in.v = builder_.linear(self + "value", width, spec_.hidden, true);
    in.kv_layer = kv_layer_;
    in.q_heads = in.kv_heads = a.q_heads;
    in.head_dim = a.head_dim;
    builder_.add(in);
    ops::Attend attend{.in_q = q, .out_o = o, .kv_layer = kv_layer_};
    attend.q_heads = attend.kv_heads = a.q_heads;
    attend.head_dim = a.head_dim;
    attend.scale = a.scale;
    attend.whole_text = true;
    builder_.add(attend);
    ops::Project project{.in = o, .residual = hidden_};
    project.linear = builder_.linear(output + "dense", spec_.hidden, width, true);
    project.out_norm = builder_.layer_norm(output + "LayerNorm", spec_.hidden);
    builder_.add(project);
    ops::Mlp mlp{.residual = hidden_};
    mlp.up = builder_.linear(prefix + "intermediate.dense", layer.ffn.width, spec_.hidden, true);
    mlp.down = builder_.linear(prefix + "output.dense", spec_.hidden, layer.ffn.width, true);
    mlp.activation = layer.ffn.activation;
    mlp.out_norm = builder_.layer_norm(prefix + "output.LayerNorm", spec_.hidden);
    builder_.add(mlp);
  }

  void pool() {
    ops::Pool pool{.in = hidden_, .pooling = encoder_.pooling};
    int64_t width = spec_.hidden;
    for (const DenseSpec& dense : encoder_.dense) {
      pool.dense.push_back({builder_.linear(dense.name, dense.width, width, dense.bias), dense.activation});
      width = dense.width;
    }
    pool.unit = encoder_.unit;
    builder_.add(std::move(pool));
    builder_.plan().task = encoder_.task;
    builder_.plan().token_types = encoder_.token_types;
    builder_.plan().pooled_width = static_cast<int32_t>(width);
  }

  const ModelSpec& spec_;
  const EncoderSpec& encoder_;
  PlanBuilder builder_;
  const ops::BufferId hidden_;
  int32_t kv_layer_ = 0;
};

}  // namespace

Plan lower_encoder(const ModelSpec& spec) {
  return EncoderLowering(spec).run();
}

}  // namespace penstock::models
