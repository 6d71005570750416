// What the tokens of a text become: one vector, through dense layers. Threads take texts.
#include <cmath>
#include <utility>

#include "exec/cpu/operations.h"

namespace penstock::exec::cpu {

namespace {

class PoolOperation final : public CpuOperation {
 public:
  PoolOperation(const ops::Pool& op, const LoadContext& load) : op_(op), width_(load.plan.hidden) {
    for (const ops::Dense& dense : op.dense) {
      const PackedMatrix* matrix = load.weights.matrix(dense.linear.weight);
      layers_.push_back({matrix, load.weights.vector(dense.linear.bias), groups_of({matrix}, load.exact),
                         dense.activation});
    }
  }

  GroupSet groups() const override {
    GroupSet all = 0;
    for (const Layer& layer : layers_) all |= layer.groups;
    return all;
  }

  void run(Context& context, int32_t thread) const override {
    const auto n = static_cast<int32_t>(context.step.texts.size());
    const Range mine = context.share(n, thread);
    for (int64_t t = mine.first; t < mine.last; ++t) pool(context, t);
    context.pool->barrier(thread);
    int64_t width = width_;
    for (const Layer& layer : layers_) {
      const ActivationRows& rows =
          prepare(context, thread, {context.pooled.data(), width, n, nullptr, nullptr, layer.groups});
      // Others may still read what this writes, where every thread prepares its rows for itself.
      context.pool->barrier(thread);
      width = layer.matrix->rows();
      const LinearPart part = {layer.matrix, {context.pooled.data(), width, bias_of(layer.bias)}};
      multiply(context, thread, {&part, 1}, rows, n);
      context.pool->barrier(thread);
      for (int64_t t = mine.first; t < mine.last; ++t)
        activate(layer.activation, context.pooled.data() + t * width, width);
      context.pool->barrier(thread);
    }
    if (op_.unit)
      for (int64_t t = mine.first; t < mine.last; ++t) make_unit(context.pooled.data() + t * width, width);
  }

 private:
  struct Layer {
    const PackedMatrix* matrix;
    std::vector<float> bias;
    GroupSet groups;
    ops::Dense::Activation activation;
  };

  void pool(const Context& context, int64_t text) const {
    const TextRange& range = context.step.texts[static_cast<size_t>(text)];
    const float* first = context.buffer(op_.in) + range.first_token * width_;
    float* out = context.pooled.data() + text * width_;
    const int32_t chosen = op_.pooling == ops::Pooling::kLast ? range.n_tokens - 1 : 0;
    std::copy_n(first + chosen * width_, width_, out);
    if (op_.pooling != ops::Pooling::kMean) return;
    for (int32_t i = 1; i < range.n_tokens; ++i) context.kernels->add(first + i * width_, width_, out);
    const auto n = static_cast<float>(range.n_tokens);
    for (int64_t i = 0; i < width_; ++i) out[i] /= n;
  }

  static void activate(ops::Dense::Activation activation, float* x, int64_t n) {
    using Activation = ops::Dense::Activation;
    if (activation == Activation::kNone) return;
    for (int64_t i = 0; i < n; ++i)
      x[i] = activation == Activation::kTanh ? std::tanh(x[i]) : 1.0f / (1.0f + std::exp(-x[i]));
  }

  static void make_unit(float* x, int64_t n) {
    double sum = 0;
    for (int64_t i = 0; i < n; ++i) sum += double{x[i]} * x[i];
    const double length = std::max(std::sqrt(sum), 1e-12);
    for (int64_t i = 0; i < n; ++i) x[i] = static_cast<float>(x[i] / length);
  }

  const ops::Pool op_;
  const int64_t width_;  // of a token
  std::vector<Layer> layers_;
};

}  // namespace

std::unique_ptr<CpuOperation> make_pool(const ops::Pool& op, const LoadContext& load) {
  return std::make_unique<PoolOperation>(op, load);
}

}  // namespace penstock::exec::cpu
