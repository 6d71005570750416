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
  if (!norm.present()) {
    std::copy(x.begin(), x.end(), y.begin());
    return;
  }
  const auto weight = weights.values(norm.weight), bias = weights.values(norm.bias);
  double mean = 0, sum = 0;
  if (!bias.empty())
    for (const float value : x) mean += value / static_cast<double>(x.size());
  for (const float value : x) sum += (value - mean) * (value - mean);
  const double inverse = 1 / std::sqrt(sum / static_cast<double>(x.size()) + norm.eps);
  for (size_t i = 0; i < x.size(); ++i) {
    const double scaled = (x[i] - mean) * inverse * (double{weight[i]} + norm.offset);
    y[i] = static_cast<float>(bias.empty() ? scaled : scaled + bias[i]);
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

void embed_reference(const Embed& op, ReferenceWeights& weights, const EmbeddedToken& token,
                     std::span<float> out) {
  const auto row_of = [&](WeightId table, int32_t row) {
    return weights.values(table).subspan(static_cast<size_t>(row) * out.size(), out.size());
  };
  const auto word = row_of(op.table, token.id);
  for (size_t i = 0; i < out.size(); ++i) out[i] = word[i] * op.scale;
  for (const auto& [table, row] :
       {std::pair(op.types, token.type), std::pair(op.positions, token.position)}) {
    if (table == kNoWeight) continue;
    const auto more = row_of(table, row);
    for (size_t i = 0; i < out.size(); ++i) out[i] += more[i];
  }
  norm_reference(op.norm, weights, out, out);
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
  const int32_t last =
      op.whole_text ? kv.first_position + static_cast<int32_t>(kv.keys.size() / width) - 1 : position;
  for (int32_t head = 0; head < op.q_heads; ++head) {
    const float* query = q.data() + static_cast<size_t>(head) * dim;
    const size_t kv_offset = static_cast<size_t>(head / (op.q_heads / op.kv_heads)) * dim;
    std::vector<double> scores;
    for (int32_t p = first; p <= last; ++p) {
      const float* key = kv.keys.data() + static_cast<size_t>(p - kv.first_position) * width + kv_offset;
      double score = 0;
      for (size_t i = 0; i < dim; ++i) score += double{query[i]} * key[i];
      score *= op.scale;
      scores.push_back(op.softcap > 0 ? op.softcap * std::tanh(score / op.softcap) : score);
    }
    const double highest = *std::max_element(scores.begin(), scores.end());
    double total = 0;
    std::vector<double> sum(dim, 0.0);
    for (int32_t p = first; p <= last; ++p) {
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
  norm_reference(op.out_norm, weights, h, h);
}

void mlp_reference(const Mlp& op, ReferenceWeights& weights, std::span<float> h) {
  std::vector<float> x(h.size());
  norm_reference(op.norm, weights, h, x);
  std::vector<float> up(static_cast<size_t>(weights.rows(op.up.weight))), gate(up.size(), 1.0f);
  linear_reference(op.up, weights, x, up);
  if (op.gated()) {
    linear_reference(op.gate, weights, x, gate);
    std::swap(gate, up);
  }
  for (size_t i = 0; i < up.size(); ++i) up[i] = activation_reference(op.activation, up[i]) * gate[i];
  std::vector<float> y(h.size());
  linear_reference(op.down, weights, up, y);
  add_residual(op.post_norm, weights, y, h);
  norm_reference(op.out_norm, weights, h, h);
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

namespace {

float dense_activation_reference(Dense::Activation activation, float x) {
  switch (activation) {
    case Dense::Activation::kNone:
      return x;
    case Dense::Activation::kTanh:
      return static_cast<float>(std::tanh(double{x}));
    case Dense::Activation::kSigmoid:
      return static_cast<float>(1 / (1 + std::exp(-double{x})));
  }
  return x;
}

/// The token that stands for its text, or their mean.
std::vector<float> pooled(Pooling pooling, std::span<const std::span<const float>> tokens) {
  if (pooling != Pooling::kMean) {
    const auto& chosen = pooling == Pooling::kFirst ? tokens.front() : tokens.back();
    return {chosen.begin(), chosen.end()};
  }
  std::vector<float> mean(tokens.front().size());
  for (size_t i = 0; i < mean.size(); ++i) {
    double sum = 0;
    for (const auto& token : tokens) sum += token[i];
    mean[i] = static_cast<float>(sum / static_cast<double>(tokens.size()));
  }
  return mean;
}

}  // namespace

std::vector<float> pool_reference(const Pool& op, ReferenceWeights& weights,
                                  std::span<const std::span<const float>> tokens) {
  std::vector<float> x = pooled(op.pooling, tokens);
  for (const Dense& dense : op.dense) {
    std::vector<float> y(static_cast<size_t>(weights.rows(dense.linear.weight)));
    linear_reference(dense.linear, weights, x, y);
    for (float& value : y) value = dense_activation_reference(dense.activation, value);
    x = std::move(y);
  }
  if (!op.unit) return x;
  double sum = 0;
  for (const float value : x) sum += double{value} * value;
  const double length = std::max(std::sqrt(sum), 1e-12);
  for (float& value : x) value = static_cast<float>(value / length);
  return x;
}

}  // namespace penstock::ops
