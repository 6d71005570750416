#include "models/plan_builder.h"

#include <algorithm>

namespace penstock::models {

PlanBuilder::PlanBuilder(const ModelSpec& spec) : spec_(spec) {
  plan_.family = spec.family;
  plan_.vocab = spec.vocab;
  plan_.hidden = static_cast<int32_t>(spec.hidden);
  plan_.max_position = spec.max_position;
  plan_.ropes = spec.ropes;
}

ops::BufferId PlanBuilder::buffer(const std::string& name, int64_t width) {
  const auto same = [&](const BufferSpec& b) { return b.name == name && b.width == width; };
  const auto it = std::find_if(plan_.buffers.begin(), plan_.buffers.end(), same);
  if (it != plan_.buffers.end()) return static_cast<ops::BufferId>(it - plan_.buffers.begin());
  plan_.buffers.push_back({name, width});
  return static_cast<ops::BufferId>(plan_.buffers.size() - 1);
}

ops::WeightId PlanBuilder::matrix(const std::string& name, int64_t rows, int64_t cols) {
  plan_.weights.push_back({name, rows, cols, false});
  return static_cast<ops::WeightId>(plan_.weights.size() - 1);
}

ops::WeightId PlanBuilder::vector(const std::string& name, int64_t cols) {
  plan_.weights.push_back({name, 1, cols, true});
  return static_cast<ops::WeightId>(plan_.weights.size() - 1);
}

ops::Linear PlanBuilder::linear(const std::string& name, int64_t rows, int64_t cols, bool bias) {
  const ops::WeightId weight = matrix(name, rows, cols);
  return {weight, bias ? vector(name + ".bias", rows) : ops::kNoWeight};
}

ops::Norm PlanBuilder::norm(const std::string& name, int64_t width) {
  if (name.empty()) return {};
  return {vector(name + ".weight", width), spec_.norm_eps, spec_.norm_offset};
}

ops::Norm PlanBuilder::layer_norm(const std::string& name, int64_t width) {
  const ops::WeightId weight = vector(name + ".weight", width);
  return {weight, spec_.norm_eps, 0, vector(name + ".bias", width)};
}

int32_t PlanBuilder::kv_layer(const AttentionSpec& a) {
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

}  // namespace penstock::models
