// A model of random weights without files: the plan of a known shape over a few random matrices that all
// layers share. For measuring programs.
#pragma once

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "base/hash.h"
#include "models/lower.h"
#include "models/plan.h"
#include "quant/format.h"

namespace penstock::bench {

struct ModelShape {
  int32_t layers, hidden, ffn, q_heads, kv_heads, head_dim, vocab;
  bool qk_norm, qkv_bias, tied_head;
};

inline const ModelShape kEightB{36, 4096, 12288, 32, 8, 128, 151936, true, false, false};
inline const ModelShape kOneAndHalfB{28, 1536, 8960, 12, 2, 128, 151936, false, true, true};

class RandomModel {
 public:
  /// Affine 4-bit weights in groups of 64 with bfloat16 scales; norms and biases in float32.
  explicit RandomModel(const ModelShape& shape) {
    models::ModelSpec spec;
    spec.family = "random";
    spec.vocab = shape.vocab;
    spec.hidden = shape.hidden;
    spec.max_position = 1 << 17;
    spec.norm_eps = 1e-6f;
    spec.tied_head = shape.tied_head;
    ops::Rope rope{shape.head_dim, false, {}, 1};
    for (int32_t i = 0; i < shape.head_dim / 2; ++i)
      rope.inv_freq.push_back(static_cast<float>(std::pow(1e6, -2.0 * i / shape.head_dim)));
    spec.ropes = {rope};
    models::LayerSpec layer;
    layer.attention = {shape.q_heads, shape.kv_heads, shape.head_dim, shape.qkv_bias, false, shape.qk_norm};
    layer.attention.scale = 1 / std::sqrt(static_cast<float>(shape.head_dim));
    layer.attention.rope = 0;
    layer.ffn.width = shape.ffn;
    spec.layers.assign(static_cast<size_t>(shape.layers), layer);
    plan_ = models::lower(spec);
    for (const models::WeightSpec& weight : plan_.weights)
      weights_.push_back(weight.vector ? vector(weight.cols) : matrix(weight.rows, weight.cols));
  }

  const models::Plan& plan() const { return plan_; }
  const ops::WeightTable& weights() const { return weights_; }

 private:
  using Bytes = std::vector<std::byte>;

  quant::Matrix vector(int64_t cols) {
    Bytes& bytes = memory_["vector " + std::to_string(cols)];
    if (bytes.empty()) {
      bytes.resize(static_cast<size_t>(cols) * 4);
      auto* at = reinterpret_cast<float*>(bytes.data());
      for (int64_t c = 0; c < cols; ++c) at[c] = 1 + 0.1f * uniform();
    }
    quant::Matrix m;
    m.format = quant::find_format("f32");
    m.rows = 1;
    m.cols = cols;
    m.codes = {tensor::DType::kF32, {cols}, bytes};
    return m;
  }

  quant::Matrix matrix(int64_t rows, int64_t cols) {
    const std::string name = std::to_string(rows) + "x" + std::to_string(cols);
    const auto groups = static_cast<size_t>(rows * cols / 64);
    Bytes &codes = memory_[name], &scales = memory_[name + " scales"], &biases = memory_[name + " biases"];
    if (codes.empty()) {
      codes.resize(static_cast<size_t>(rows * cols / 2));
      for (size_t i = 0; i < codes.size(); i += 8) {
        const uint64_t random = next();
        std::memcpy(codes.data() + i, &random, 8);
      }
      scales.resize(groups * 2);
      biases.resize(groups * 2);
      const float typical = 1 / (4.6f * std::sqrt(static_cast<float>(cols)));
      for (size_t g = 0; g < groups; ++g) {
        const float scale = typical * (1 + 0.3f * uniform());
        const uint16_t s = tensor::f32_to_bf16(scale), b = tensor::f32_to_bf16(-7.5f * scale);
        std::memcpy(scales.data() + g * 2, &s, 2);
        std::memcpy(biases.data() + g * 2, &b, 2);
      }
    }
    quant::Matrix m;
    m.format = quant::find_format("affine");
    m.rows = rows;
    m.cols = cols;
    m.bits = 4;
    m.group_size = 64;
    m.codes = {tensor::DType::kU32, {rows, cols / 8}, codes};
    m.scales = {tensor::DType::kBF16, {rows, cols / 64}, scales};
    m.biases = {tensor::DType::kBF16, {rows, cols / 64}, biases};
    return m;
  }

  uint64_t next() { return base::splitmix64(state_++ * 0x9e3779b97f4a7c15ULL); }
  float uniform() { return static_cast<float>(next() >> 40) * 0x1p-23f - 1; }

  models::Plan plan_;
  ops::WeightTable weights_;
  std::map<std::string, Bytes> memory_;
  uint64_t state_ = 1;
};

}  // namespace penstock::bench
