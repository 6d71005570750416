#include "convert/gguf_files.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>

#include "base/error.h"
#include "models/family.h"
#include "pool/model_text.h"
#include "text/tokenizer.h"

namespace penstock::convert {
namespace {

using base::Json;
using models::ModelSpec;

/// GGUF stores float32 numbers: 1e-06 is there 9.99999997e-07.
double shortest(double value) {
  char text[32];
  const auto end = std::to_chars(text, text + sizeof(text), static_cast<float>(value)).ptr;
  double out = value;
  std::from_chars(text, end, out);
  return out;
}

std::string architecture(const std::string& model_type) {
  static const std::map<std::string, std::string> kNames = {{"llama", "LlamaForCausalLM"},
                                                            {"qwen2", "Qwen2ForCausalLM"},
                                                            {"qwen3", "Qwen3ForCausalLM"},
                                                            {"gemma3_text", "Gemma3ForCausalLM"}};
  const auto found = kNames.find(model_type);
  if (found != kNames.end()) return found->second;
  throw base::Error(base::Code::kUnsupported,
                    "[convert.gguf] expected a model type whose config.json is known; got " + model_type);
}

bool close(const std::vector<float>& a, const std::vector<float>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](float x, float y) {
    return std::abs(x - y) <= 1e-5f * std::max(std::abs(x), std::abs(y));
  });
}

bool same_layer(const models::LayerSpec& a, const models::LayerSpec& b) {
  const models::AttentionSpec& p = a.attention;
  const models::AttentionSpec& q = b.attention;
  return p.q_heads == q.q_heads && p.kv_heads == q.kv_heads && p.head_dim == q.head_dim &&
         p.qkv_bias == q.qkv_bias && p.o_bias == q.o_bias && p.qk_norm == q.qk_norm && p.scale == q.scale &&
         p.softcap == q.softcap && p.window == q.window && p.rope == q.rope && a.ffn.width == b.ffn.width &&
         a.ffn.bias == b.ffn.bias && a.ffn.activation == b.ffn.activation;
}

/// Norm offsets differ on purpose: norms are stored the other way.
std::string difference(const ModelSpec& a, const ModelSpec& b) {
  if (a.vocab != b.vocab || a.hidden != b.hidden || a.max_position != b.max_position) return "sizes";
  if (a.norm_eps != b.norm_eps || a.embed_scale != b.embed_scale || a.final_softcap != b.final_softcap)
    return "constants";
  if (a.tied_head != b.tied_head) return "a tied head";
  if (a.layers.size() != b.layers.size() ||
      !std::equal(a.layers.begin(), a.layers.end(), b.layers.begin(), same_layer))
    return "layers (biases, windows)";
  if (a.ropes.size() != b.ropes.size()) return "ropes";
  for (size_t i = 0; i < a.ropes.size(); ++i) {
    if (a.ropes[i].dims != b.ropes[i].dims || a.ropes[i].magnitude != b.ropes[i].magnitude ||
        !close(a.ropes[i].inv_freq, b.ropes[i].inv_freq))
      return "rope frequencies";
  }
  return "";
}

/// The parameters behind the divisors of llama 3.1 and later, which all have these three numbers; whether the
/// factor explains the divisors shows when the config is read back.
Json llama3_scaling(const models::ModelFiles& files) {
  const tensor::StoredTensor* stored = files.checkpoint->find("rope_freqs.weight");
  const auto divisors = tensor::to_f32({*stored->dtype, stored->shape, stored->bytes});
  return {{"rope_type", "llama3"},
          {"factor", shortest(*std::max_element(divisors.begin(), divisors.end()))},
          {"low_freq_factor", 1.0},
          {"high_freq_factor", 4.0},
          {"original_max_position_embeddings", 8192}};
}

void add_ids(const tensor::Gguf& gguf, Json& config) {
  for (const char* role : {"bos", "eos"}) {
    const std::string key = "tokenizer.ggml." + std::string(role) + "_token_id";
    if (gguf.has(key)) config[std::string(role) + "_token_id"] = gguf.integer(key);
  }
  if (gguf.has("tokenizer.ggml.padding_token_id"))
    config["pad_token_id"] = gguf.integer("tokenizer.ggml.padding_token_id");
}

Json tokenizer_config(const tensor::Gguf& gguf, const text::GgufVocab& vocab) {
  // The class that takes tokenizer.json as it is.
  Json config = {{"tokenizer_class", "PreTrainedTokenizerFast"}, {"clean_up_tokenization_spaces", false}};
  for (const auto& [role, key] : std::map<std::string, std::string>{
           {"bos", "bos"}, {"eos", "eos"}, {"unk", "unknown"}, {"pad", "padding"}}) {
    const int64_t id = gguf.integer_or("tokenizer.ggml." + key + "_token_id", -1);
    if (id >= 0 && id < static_cast<int64_t>(vocab.tokens.size()))
      config[role + "_token"] = vocab.tokens[static_cast<size_t>(id)];
  }
  const std::string context = std::string(gguf.text("general.architecture")) + ".context_length";
  if (gguf.has(context)) config["model_max_length"] = gguf.integer(context);
  const std::string_view source = gguf.text_or("tokenizer.chat_template", "");
  if (!source.empty()) config["chat_template"] = source;
  return config;
}

}  // namespace

Json gguf_model_config(const models::ModelFiles& files) {
  Json config = {{"architectures", {architecture(files.config["model_type"].get<std::string>())}}};
  config.update(files.config);
  config["rms_norm_eps"] = shortest(config["rms_norm_eps"].get<double>());
  config["rope_theta"] = shortest(config["rope_theta"].get<double>());
  config["tie_word_embeddings"] = files.spec.tied_head;
  const bool bias = files.spec.layers.front().attention.qkv_bias;
  const std::string type = config["model_type"].get<std::string>();
  if (type != "qwen2") config["attention_bias"] = bias;
  if (type == "llama") config["mlp_bias"] = files.spec.layers.front().ffn.bias;
  if (!config.contains("hidden_activation")) config["hidden_act"] = "silu";
  if (type == "gemma3_text") {
    config["rope_local_base_freq"] = 10000.0;
    config["sliding_window_pattern"] = 6;
  }
  if (config.contains("partial_rotary_factor") && config["partial_rotary_factor"] == 1.0)
    config.erase("partial_rotary_factor");
  if (files.checkpoint->find("rope_freqs.weight") != nullptr) config["rope_scaling"] = llama3_scaling(files);
  add_ids(*files.checkpoint->gguf(), config);
  const std::string differs = difference(files.spec, models::read_spec(config));
  if (differs.empty()) return config;
  throw base::Error(base::Code::kUnsupported,
                    "[convert.gguf] expected a model that a config.json can describe; got other " + differs);
}

std::vector<SideFile> gguf_side_files(const tensor::Gguf& gguf) {
  const text::GgufVocab vocab = pool::gguf_vocab(gguf);
  const pool::ModelText text = pool::read_model_text(gguf);
  Json generation = Json::object();
  add_ids(gguf, generation);
  if (!text.stop_ids.empty()) generation["eos_token_id"] = text.stop_ids;
  return {{"tokenizer.json", text::Tokenizer::from_gguf(vocab).to_json(), {}},
          {"tokenizer_config.json", tokenizer_config(gguf, vocab).dump(2) + "\n", {}},
          {"generation_config.json", generation.dump(2) + "\n", {}}};
}

}  // namespace penstock::convert
