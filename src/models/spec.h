// ModelSpec: what config.json says of a model, as plain data. A family file fills it, lowering turns it into
// a Plan.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "models/plan.h"
#include "ops/operation.h"

namespace penstock::models {

struct AttentionSpec {
  int32_t q_heads = 0, kv_heads = 0, head_dim = 0;
  bool qkv_bias = false, o_bias = false;
  bool qk_norm = false;  // RMS norm over each head of q and k
  float scale = 1;       // of the scores
  float softcap = 0;     // of the scores, 0 none
  int32_t window = 0;    // tokens, 0 all
  int32_t rope = -1;     // index into ModelSpec::ropes
};

struct FfnSpec {
  int64_t width = 0;
  bool bias = false;
  ops::Activation activation = ops::Activation::kSilu;
};

/// Module names inside a layer; empty where the family has no such norm.
struct LayerNorms {
  std::string attention = "input_layernorm";
  std::string attention_post;
  std::string ffn = "post_attention_layernorm";
  std::string ffn_post;
};

struct LayerSpec {
  AttentionSpec attention;
  FfnSpec ffn;
};

/// A dense layer behind the pooling.
struct DenseSpec {
  std::string name;  // "2_Dense/linear"
  int64_t width = 0;
  bool bias = true;
  ops::Dense::Activation activation = ops::Dense::Activation::kNone;
};

/// What an encoder has that a decoder has not.
struct EncoderSpec {
  std::string prefix;  // of the checkpoint's names: "bert.", or empty
  int32_t token_types = 0;
  int32_t positions = 0;  // rows of the table; a text may be shorter only
  Task task = Task::kEmbed;
  ops::Pooling pooling = ops::Pooling::kMean;
  std::vector<DenseSpec> dense;
  bool unit = false;  // vectors of length 1
};

struct ModelSpec {
  std::string family;
  int32_t vocab = 0;
  int64_t hidden = 0;
  int32_t max_position = 0;  // tokens
  float norm_eps = 0;
  float norm_offset = 0;  // added to every norm weight
  float embed_scale = 1;
  float final_softcap = 0;  // of the logits, 0 none
  bool tied_head = false;
  std::vector<ops::Rope> ropes;
  LayerNorms norms;
  std::vector<LayerSpec> layers;
  std::optional<EncoderSpec> encoder;     // absent: a decoder
  std::vector<std::string> unknown_keys;  // of config.json, not read and not known to be harmless
};

}  // namespace penstock::models
