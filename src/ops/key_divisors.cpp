#include "ops/key_divisors.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "quant/format.h"

namespace penstock::ops {

namespace {

std::vector<float> row_of(const WeightTable& weights, WeightId id, int64_t row) {
  const quant::Matrix& matrix = weights[static_cast<size_t>(id)];
  std::vector<float> values(static_cast<size_t>(matrix.cols));
  matrix.format->dequantize(matrix, row, values);
  return values;
}

/// Empty where there is no norm.
std::vector<float> weights_of(const WeightTable& weights, const Norm& norm) {
  if (!norm.present()) return {};
  std::vector<float> values = row_of(weights, norm.weight, 0);
  for (float& value : values) value += norm.offset;
  return values;
}

/// Root mean square of each dimension of the keys, if those of the normalised input are alike and
/// independent.
std::vector<float> usual_sizes(const AttnIn& op, const WeightTable& weights) {
  const auto dim = static_cast<size_t>(op.head_dim), n = static_cast<size_t>(op.kv_heads) * dim;
  std::vector<float> sizes(n);
  if (op.k_norm.present()) {
    const std::vector<float> norm = weights_of(weights, op.k_norm);
    for (size_t i = 0; i < n; ++i) sizes[i] = std::abs(norm[i % dim]);
    return sizes;
  }
  const std::vector<float> norm = weights_of(weights, op.norm);
  const std::vector<float> bias =
      op.k.bias == kNoWeight ? std::vector<float>(n) : row_of(weights, op.k.bias, 0);
  for (size_t i = 0; i < n; ++i) {
    const std::vector<float> row = row_of(weights, op.k.weight, static_cast<int64_t>(i));
    float squares = bias[i] * bias[i];
    for (size_t c = 0; c < row.size(); ++c) {
      const float weight = norm.empty() ? row[c] : row[c] * norm[c];
      squares += weight * weight;
    }
    sizes[i] = std::sqrt(squares);
  }
  return sizes;
}

void join_pairs(const Rope& rope, std::span<float> head) {
  const auto half = static_cast<size_t>(rope.dims / 2);
  for (size_t i = 0; i < half; ++i) {
    float& a = head[rope.interleaved ? 2 * i : i];
    float& b = head[rope.interleaved ? 2 * i + 1 : i + half];
    a = b = std::max(a, b);
  }
}

}  // namespace

std::vector<float> key_divisors(const AttnIn& op, const Rope* rope, const WeightTable& weights) {
  std::vector<float> sizes = usual_sizes(op, weights);
  const auto dim = static_cast<size_t>(op.head_dim);
  if (rope != nullptr)
    for (size_t head = 0; head < sizes.size(); head += dim)
      join_pairs(*rope, std::span(sizes).subspan(head, dim));
  for (float& size : sizes)
    size = size > 0 ? std::exp2(std::clamp(std::round(std::log2(size)), -30.0f, 30.0f)) : 1.0f;
  return sizes;
}

}  // namespace penstock::ops
