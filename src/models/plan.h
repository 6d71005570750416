// A plan: the ordered operations of one model with the weights, buffers, ropes and KV groups they name. Plain
// data, made once by lowering a ModelSpec, read by executors and by `penstock plan`.
#pragma once

#include <string>
#include <vector>

#include "ops/operation.h"

namespace penstock::models {

struct WeightSpec {
  std::string name;  // module path of the checkpoint without ".weight": "model.layers.0.self_attn.q_proj"
  int64_t rows = 0;  // 1 for a vector
  int64_t cols = 0;
  bool vector = false;
};

struct BufferSpec {
  std::string name;
  int64_t width = 0;
};

/// Layers that share a block table: equal window and equal head shape.
struct KvGroup {
  int32_t n_layers = 0;
  int32_t kv_heads = 0, head_dim = 0;
  int32_t window = 0;  // positions older than this are never read; 0: all are
};

/// Where a layer's keys and values live.
struct KvLayer {
  int32_t group = 0;
  int32_t index = 0;  // layer within the group
};

/// What a plan gives: logits of tokens, a vector for each text, a score for each pair of texts.
enum class Task : uint8_t { kGenerate, kEmbed, kScore };

struct Plan {
  std::string family;
  Task task = Task::kGenerate;
  int32_t vocab = 0;
  int32_t hidden = 0;
  int32_t max_position = 0;  // context length of the model in tokens
  int32_t token_types = 0;   // of an encoder
  int32_t pooled_width = 0;  // of what a text becomes, but for kGenerate
  std::vector<WeightSpec> weights;
  std::vector<BufferSpec> buffers;
  std::vector<ops::Rope> ropes;
  std::vector<KvGroup> kv_groups;
  std::vector<KvLayer> kv_layers;
  std::vector<ops::Operation> operations;
};

/// One line an operation, for `penstock plan`.
std::string describe(const Plan& plan);

}  // namespace penstock::models
