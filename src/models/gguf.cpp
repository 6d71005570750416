#include "models/gguf.h"

#include <array>
#include <set>
#include <utility>

#include "base/error.h"

namespace penstock::models {
namespace {

using base::Code;
using base::Error;
using base::Json;

void refuse_unknown_maths(const tensor::Gguf& gguf, const std::string& arch) {
  for (const char* key : {".expert_count", ".attention.clamp_kqv", ".attention.max_alibi_bias",
                          ".logit_scale", ".residual_scale", ".embedding_scale", ".attention.scale",
                          ".attn_logit_softcapping", ".rope.scaling.yarn_log_multiplier"}) {
    if (gguf.has(arch + key) && gguf.number(arch + key) != 0) {
      throw Error(Code::kUnsupported,
                  "[models.gguf] expected no " + arch + key + "; got a value that changes the maths");
    }
  }
}

Json rope_scaling(const tensor::Gguf& gguf, const std::string& arch) {
  const std::string_view type = gguf.text_or(arch + ".rope.scaling.type", "none");
  if (type == "none") return nullptr;
  Json scaling = {{"rope_type", type}, {"factor", gguf.number(arch + ".rope.scaling.factor")}};
  if (gguf.has(arch + ".rope.scaling.original_context_length")) {
    scaling["original_max_position_embeddings"] =
        gguf.integer(arch + ".rope.scaling.original_context_length");
  }
  return scaling;
}

void add_gemma3(const tensor::Gguf& gguf, const std::string& arch, Json& config) {
  config["hidden_activation"] = "gelu_pytorch_tanh";
  config["sliding_window"] = gguf.integer(arch + ".attention.sliding_window");
  // The 27B model alone scales by its model width (62 layers), as the authors' config says
  // (query_pre_attn_scalar 168).
  config["query_pre_attn_scalar"] =
      config["num_hidden_layers"] == 62
          ? config["hidden_size"].get<int64_t>() / config["num_attention_heads"].get<int64_t>()
          : config["head_dim"].get<int64_t>();
}

}  // namespace

Json gguf_config(const tensor::Gguf& gguf) {
  const std::string arch(gguf.text("general.architecture"));
  static const std::set<std::string> kKnown = {"llama", "qwen2", "qwen3", "gemma3"};
  if (!kKnown.contains(arch)) {
    throw Error(Code::kUnsupported,
                "[models.gguf] expected architecture llama, qwen2, qwen3 or gemma3; got " + arch);
  }
  refuse_unknown_maths(gguf, arch);
  Json config = {{"model_type", arch == "gemma3" ? "gemma3_text" : arch}};
  config["vocab_size"] = gguf.texts("tokenizer.ggml.tokens").size();
  config["hidden_size"] = gguf.integer(arch + ".embedding_length");
  config["num_hidden_layers"] = gguf.integer(arch + ".block_count");
  config["intermediate_size"] = gguf.integer(arch + ".feed_forward_length");
  const int64_t heads = gguf.integer(arch + ".attention.head_count");
  if (heads < 1) {
    throw Error(Code::kCorrupt,
                "[models.gguf] expected at least one attention head; got " + std::to_string(heads));
  }
  config["num_attention_heads"] = heads;
  config["num_key_value_heads"] = gguf.integer_or(arch + ".attention.head_count_kv", heads);
  const int64_t head_dim = config["hidden_size"].get<int64_t>() / heads;
  config["head_dim"] = gguf.integer_or(arch + ".attention.key_length", head_dim);
  config["max_position_embeddings"] = gguf.integer(arch + ".context_length");
  config["rms_norm_eps"] = gguf.number(arch + ".attention.layer_norm_rms_epsilon");
  config["rope_theta"] = gguf.number_or(arch + ".rope.freq_base", 10000);
  config["rope_scaling"] = rope_scaling(gguf, arch);
  if (arch == "gemma3") add_gemma3(gguf, arch, config);
  if (arch == "llama" && gguf.has("llama.rope.dimension_count")) {
    config["partial_rotary_factor"] =
        static_cast<double>(gguf.integer("llama.rope.dimension_count")) / config["head_dim"].get<double>();
  }
  return config;
}

std::string gguf_tensor_name(const std::string& name, bool sandwich) {
  static const std::array<std::pair<const char*, const char*>, 3> kTop = {{
      {"model.embed_tokens.weight", "token_embd.weight"},
      {"model.norm.weight", "output_norm.weight"},
      {"lm_head.weight", "output.weight"},
  }};
  for (const auto& [ours, theirs] : kTop) {
    if (name == ours) return theirs;
  }
  static const std::array<std::pair<const char*, const char*>, 13> kLayer = {{
      {"self_attn.q_proj.", "attn_q."},
      {"self_attn.k_proj.", "attn_k."},
      {"self_attn.v_proj.", "attn_v."},
      {"self_attn.o_proj.", "attn_output."},
      {"self_attn.q_norm.", "attn_q_norm."},
      {"self_attn.k_norm.", "attn_k_norm."},
      {"mlp.gate_proj.", "ffn_gate."},
      {"mlp.up_proj.", "ffn_up."},
      {"mlp.down_proj.", "ffn_down."},
      {"input_layernorm.", "attn_norm."},
      {"pre_feedforward_layernorm.", "ffn_norm."},
      {"post_feedforward_layernorm.", "post_ffw_norm."},
      {"post_attention_layernorm.", nullptr},
  }};
  const std::string prefix = "model.layers.";
  const size_t dot = name.find('.', prefix.size());
  for (const auto& [ours, theirs] : kLayer) {
    if (!name.starts_with(prefix) || name.compare(dot + 1, std::string(ours).size(), ours) != 0) continue;
    const std::string translated =
        theirs != nullptr ? theirs : (sandwich ? "post_attention_norm." : "ffn_norm.");
    return "blk." + name.substr(prefix.size(), dot - prefix.size() + 1) + translated +
           name.substr(dot + 1 + std::string(ours).size());
  }
  throw Error(Code::kInternal, "[models.gguf] expected a name with a GGUF spelling; got " + name);
}

bool gguf_interleaves_rope(const tensor::Gguf& gguf) {
  return gguf.text("general.architecture") == "llama";
}

}  // namespace penstock::models
