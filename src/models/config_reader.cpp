#include "models/config_reader.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "base/error.h"

namespace penstock::models {
namespace {

using base::Code;
using base::Error;
using base::Json;

/// Keys that change the maths in some family, with the value that changes nothing.
const std::map<std::string, Json>& neutral_values() {
  static const std::map<std::string, Json> kValues = {
      {"attention_bias", false},
      {"attention_multiplier", nullptr},
      {"attn_logit_softcapping", nullptr},
      {"clip_qkv", nullptr},
      {"embedding_multiplier", 1.0},
      {"final_logit_softcapping", nullptr},
      {"logit_scale", 1.0},
      {"logits_scaling", 1.0},
      {"mlp_bias", false},
      {"n_routed_experts", nullptr},
      {"no_rope_layers", nullptr},
      {"num_experts", 0},
      {"num_local_experts", 0},
      {"partial_rotary_factor", 1.0},
      {"qk_layernorm", false},
      {"qkv_bias", false},
      {"query_pre_attn_scalar", nullptr},
      {"residual_multiplier", 1.0},
      {"rope_interleaved", false},
      {"sliding_window", nullptr},
      {"use_bidirectional_attention", false},
      {"use_qk_norm", false},
      {"use_sliding_window", false},
      {"add_cross_attention", false},
      {"is_encoder_decoder", false},
      {"altup_num_inputs", nullptr},
      {"num_kv_shared_layers", 0},
      {"nope_layer_interval", nullptr},
      {"layer_types", nullptr},
      {"rope_local_base_freq", nullptr},
      {"sliding_window_pattern", nullptr},
      {"rope_scaling", nullptr},
      {"rope_parameters", nullptr},
  };
  return kValues;
}

/// Keys that never change the logits.
const std::set<std::string>& harmless_keys() {
  static const std::set<std::string> kKeys = {
      "_name_or_path",
      "architectures",
      "attention_dropout",
      "attention_probs_dropout_prob",
      "classifier_dropout",
      "gradient_checkpointing",
      "auto_map",
      "bos_token_id",
      "cache_implementation",
      "chunk_size_feed_forward",
      "dtype",
      "embd_pdrop",
      "eos_token_id",
      "hidden_dropout",
      "hidden_dropout_prob",
      "initializer_range",
      "is_llama_config",
      "max_window_layers",
      "model_type",
      "name_or_path",
      "num_logits_to_keep",
      "output_attentions",
      "output_hidden_states",
      "pad_token_id",
      "pretraining_tp",
      "quantization",
      "quantization_config",
      "residual_dropout",
      "resid_pdrop",
      "return_dict",
      "rms_norm_eps",
      "rope_theta",
      "torch_dtype",
      "transformers.js_config",
      "transformers_version",
      "unk_token_id",
      "unsloth_fixed",
      "unsloth_version",
      "use_cache",
      "_attn_implementation_autoset",
      "_sliding_window_pattern",
      "image_token_index",
      "boi_token_index",
      "eoi_token_index",
      "mm_tokens_per_image",
      "vision_config",
      "text_config",
      "id2label",
      "label2id",
      "problem_type",
      "tokenizer_class",
      "task_specific_params",
      "finetuning_task",
      "prefix",
  };
  return kKeys;
}

bool is_neutral(const Json& value, const Json& neutral) {
  return value.is_null() || value == neutral || (value.is_boolean() && !value.get<bool>());
}

[[noreturn]] void refuse(const std::string& key, const std::string& expected, const Json* got) {
  throw Error(Code::kInvalidRequest, "[models.config] expected " + expected + " as " + key +
                                         " of config.json; got " +
                                         (got != nullptr ? got->dump() : std::string("nothing")));
}

}  // namespace

const Json* ConfigReader::find(const std::string& key) {
  read_.insert(key);
  const auto it = config_->find(key);
  return it == config_->end() || it->is_null() ? nullptr : &*it;
}

int64_t ConfigReader::positive(const std::string& key) {
  const Json* value = find(key);
  if (value == nullptr || !value->is_number_integer() || value->get<int64_t>() < 1 ||
      value->get<int64_t>() > INT32_MAX) {
    refuse(key, "a positive 32-bit integer", value);
  }
  return value->get<int64_t>();
}

int64_t ConfigReader::positive_or(const std::string& key, int64_t otherwise) {
  return find(key) == nullptr ? otherwise : positive(key);
}

double ConfigReader::number(const std::string& key) {
  const Json* value = find(key);
  if (value == nullptr || !value->is_number() || !std::isfinite(value->get<double>()))
    refuse(key, "a number", value);
  return value->get<double>();
}

double ConfigReader::number_or(const std::string& key, double otherwise) {
  return find(key) == nullptr ? otherwise : number(key);
}

bool ConfigReader::flag_or(const std::string& key, bool otherwise) {
  const Json* value = find(key);
  if (value != nullptr && !value->is_boolean()) refuse(key, "true or false", value);
  return value == nullptr ? otherwise : value->get<bool>();
}

std::string ConfigReader::text(const std::string& key) {
  const Json* value = find(key);
  if (value == nullptr || !value->is_string()) refuse(key, "a string", value);
  return value->get<std::string>();
}

std::string ConfigReader::text_or(const std::string& key, const std::string& otherwise) {
  return find(key) == nullptr ? otherwise : text(key);
}

std::vector<std::string> ConfigReader::finish() const {
  std::vector<std::string> unknown;
  for (const auto& [key, value] : config_->items()) {
    if (read_.contains(key) || harmless_keys().contains(key)) continue;
    const auto known = neutral_values().find(key);
    if (known == neutral_values().end()) {
      if (!value.is_null()) unknown.push_back(key);
    } else if (!is_neutral(value, known->second)) {
      throw Error(Code::kUnsupported, "[models.config] expected a family that reads " + key +
                                          ", which changes the maths; got " + value.dump());
    }
  }
  return unknown;
}

}  // namespace penstock::models
