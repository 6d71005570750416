#include "ops/reference.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "quant/format.h"

namespace penstock::ops {

std::span<const float> ReferenceWeights::values(WeightId id) {
  if (id == kNoWeight) return {};
  auto& values = values_[static_cast<size_t>(id)];
  const quant::Matrix& matrix = (*table_)[static_cast<size_t>(id)];
  if (values.empty()) {
    values.resize(static_cast<size_t>(matrix.rows * matrix.cols));
    for (int64_t row = 0; row < matrix.rows; ++row) {
      const auto offset = static_cast<size_t>(row * matrix.cols);
      matrix.format->dequantize(matrix, row,
                                std::span(values).subspan(offset, static_cast<size_t>(matrix.cols)));
    }
  }
  return values;
}

void norm_reference(const Norm& norm, ReferenceWeights& weights, std::span<const float> x,
                    std::span<float> y) {
  const auto weight = weights.values(norm.weight);
  double sum = 0;
  for (const float value : x) sum += double{value} * value;
  const double inverse = 1 / std::sqrt(sum / static_cast<double>(x.size()) + norm.eps);
  for (size_t i = 0; i < x.size(); ++i) {
    y[i] = static_cast<float>(x[i] * inverse * (double{weight[i]} + norm.offset));
  }
}

void linear_reference(const Linear& linear, ReferenceWeights& weights, std::span<const float> x,
                      std::span<float> y) {
  const auto weight = weights.values(linear.weight);
  const auto bias = weights.values(linear.bias);
  for (size_t row = 0; row < y.size(); ++row) {
    double sum = bias.empty() ? 0 : bias[row];
    for (size_t col = 0; col < x.size(); ++col) sum += double{weight[row * x.size() + col]} * x[col];
    y[row] = static_cast<float>(sum);
  }
}

void rope_reference(const Rope& rope, int32_t position, std::span<float> head) {
  const auto half = static_cast<size_t>(rope.dims / 2);
  for (size_t i = 0; i < half; ++i) {
    // The angle is a float32 product, as in the references: at position 100,000 its rounding is visible.
    const float angle = static_cast<float>(position) * rope.inv_freq[i];
    const double cosine = std::cos(double{angle}) * rope.magnitude;
    const double sine = std::sin(double{angle}) * rope.magnitude;
    float& a = head[rope.interleaved ? 2 * i : i];
    float& b = head[rope.interleaved ? 2 * i + 1 : i + half];
    const double turned_a = a * cosine - b * sine;
    const double turned_b = b * cosine + a * sine;
    a = static_cast<float>(turned_a);
    b = static_cast<float>(turned_b);
  }
}

float activation_reference(Activation activation, float x) {
  const double v = x;
  switch (activation) {
    case Activation::kSilu:
      return static_cast<float>(v / (1 + std::exp(-v)));
    case Activation::kGelu:
      return static_cast<float>(0.5 * v * (1 + std::erf(v / std::numbers::sqrt2)));
    case Activation::kGeluTanh: {
      const double inner = std::sqrt(2 / std::numbers::pi) * (v + 0.044715 * v * v * v);
      return static_cast<float>(0.5 * v * (1 + std::tanh(inner)));
    }
  }
  return x;
}

void embed_reference(const Embed& op, ReferenceWeights& weights, int32_t id, std::span<float> out) {
  const auto row = weights.values(op.table).subspan(static_cast<size_t>(id) * out.size(), out.size());
  for (size_t i = 0; i < out.size(); ++i) out[i] = row[i] * op.scale;
}

AttnInOutput attn_in_reference(const AttnIn& op, const Rope* rope, ReferenceWeights& weights,
                               int32_t position, std::span<const float> h) {
  std::vector<float> x(h.size());
  norm_reference(op.norm, weights, h, x);
  const auto dim = static_cast<size_t>(op.head_dim);
  AttnInOutput out;
  out.q.resize(static_cast<size_t>(op.q_heads) * dim);
  out.k.resize(static_cast<size_t>(op.kv_heads) * dim);
  out.v.resize(static_cast<size_t>(op.kv_heads) * dim);
  linear_reference(op.q, weights, x, out.q);
  linear_reference(op.k, weights, x, out.k);
  linear_reference(op.v, weights, x, out.v);
  const auto finish = [&](std::vector<float>& heads, const Norm& norm) {
    for (size_t at = 0; at < heads.size(); at += dim) {
      const auto head = std::span(heads).subspan(at, dim);
      if (norm.present()) norm_reference(norm, weights, head, head);
      if (rope != nullptr) rope_reference(*rope, position, head);
    }
  };
  finish(out.q, op.q_norm);
  finish(out.k, op.k_norm);
  return out;
}

void attend_reference(const Attend& op, int32_t position, const VisibleKv& kv, std::span<const float> q,
                      std::span<float> o) {
  const auto dim = static_cast<size_t>(op.head_dim);
  const auto width = static_cast<size_t>(op.kv_heads) * dim;
  const int32_t first = op.window > 0 ? std::max(0, position - op.window + 1) : 0;
  for (int32_t head = 0; head < op.q_heads; ++head) {
    const float* query = q.data() + static_cast<size_t>(head) * dim;
    const size_t kv_offset = static_cast<size_t>(head / (op.q_heads / op.kv_heads)) * dim;
    std::vector<double> scores;
    for (int32_t p = first; p <= position; ++p) {
      const float* key = kv.keys.data() + static_cast<size_t>(p - kv.first_position) * width + kv_offset;
      double score = 0;
      for (size_t i = 0; i < dim; ++i) score += double{query[i]} * key[i];
      score *= op.scale;
      scores.push_back(op.softcap > 0 ? op.softcap * std::tanh(score / op.softcap) : score);
    }
    const double highest = *std::max_element(scores.begin(), scores.end());
    double total = 0;
    std::vector<double> sum(dim, 0.0);
    for (int32_t p = first; p <= position; ++p) {
      const float* value = kv.values.data() + static_cast<size_t>(p - kv.first_position) * width + kv_offset;
      const double weight = std::exp(scores[static_cast<size_t>(p - first)] - highest);
      total += weight;
      for (size_t i = 0; i < dim; ++i) sum[i] += weight * value[i];
    }
    for (size_t i = 0; i < dim; ++i)
      o[static_cast<size_t>(head) * dim + i] = static_cast<float>(sum[i] / total);
  }
}

namespace {

/// h = h + norm(y), where an absent norm leaves y.
void add_residual(const Norm& norm, ReferenceWeights& weights, std::span<float> y, std::span<float> h) {
  if (norm.present()) norm_reference(norm, weights, y, y);
  for (size_t i = 0; i < h.size(); ++i) h[i] += y[i];
}

}  // namespace

void project_reference(const Project& op, ReferenceWeights& weights, std::span<const float> o,
                       std::span<float> h) {
  std::vector<float> y(h.size());
  linear_reference(op.linear, weights, o, y);
  add_residual(op.post_norm, weights, y, h);
}

void mlp_reference(const Mlp& op, ReferenceWeights& weights, std::span<float> h) {
  std::vector<float> x(h.size());
  norm_reference(op.norm, weights, h, x);
  std::vector<float> gate(static_cast<size_t>(weights.rows(op.gate.weight))), up(gate.size());
  linear_reference(op.gate, weights, x, gate);
  linear_reference(op.up, weights, x, up);
  for (size_t i = 0; i < gate.size(); ++i) gate[i] = activation_reference(op.activation, gate[i]) * up[i];
  std::vector<float> y(h.size());
  linear_reference(op.down, weights, gate, y);
  add_residual(op.post_norm, weights, y, h);
}

void head_reference(const Head& op, ReferenceWeights& weights, std::span<const float> h,
                    std::span<float> logits) {
  std::vector<float> x(h.size());
  norm_reference(op.norm, weights, h, x);
  linear_reference({op.weight, kNoWeight}, weights, x, logits);
  if (op.softcap > 0) {
    for (float& logit : logits) logit = op.softcap * std::tanh(logit / op.softcap);
  }
}

}  // namespace penstock::ops
