// The feed-forward part of a layer. Threads take pieces of the columns of gate and up, and join and quantise
// them while they are in the cache.
#include <algorithm>

#include "exec/cpu/operations.h"

namespace penstock::exec::cpu {

namespace {

Gate gate_of(ops::Activation activation) {
  switch (activation) {
    case ops::Activation::kSilu:
      return Gate::kSilu;
    case ops::Activation::kGeluTanh:
      return Gate::kGeluTanh;
    case ops::Activation::kGelu:
      return Gate::kGelu;
  }
  return Gate::kSilu;
}

class MlpOperation final : public CpuOperation {
 public:
  MlpOperation(const ops::Mlp& op, const LoadContext& load)
      : op_(op),
        gate_(load.weights.matrix(op.gate.weight)),
        up_(load.weights.matrix(op.up.weight)),
        down_(load.weights.matrix(op.down.weight)),
        gate_bias_(load.weights.vector(op.gate.bias)),
        up_bias_(load.weights.vector(op.up.bias)),
        down_bias_(load.weights.vector(op.down.bias)),
        norm_(load_norm(op.norm, load)),
        post_norm_(load_norm(op.post_norm, load)),
        in_groups_(groups_of({gate_, up_}, load.exact)),
        down_groups_(groups_of({down_}, load.exact)) {}

  GroupSet groups() const override { return in_groups_ | down_groups_; }

  void run(Context& context, int32_t thread) const override {
    const int32_t m = context.step.n_tokens();
    float* residual = context.buffer(op_.residual);
    const int64_t width = context.width(op_.residual);
    const ActivationRows& rows = prepare(context, thread, {residual, width, m, &norm_, nullptr, in_groups_});
    join(context, thread, rows, m);
    const bool normed = !post_norm_.weight.empty();
    const LinearPart part = {down_,
                             {normed ? context.sum.data() : residual, width, bias_of(down_bias_), !normed}};
    multiply(context, thread, {&part, 1}, context.joined, m);
    context.pool->barrier(thread);
    if (!normed) return;
    add_normed(context, thread, post_norm_, residual, width);
    context.pool->barrier(thread);
  }

 private:
  static Range units(const PackedMatrix& matrix, Range rows) {
    const int64_t n = matrix.unit_rows();
    return {(rows.first + n - 1) / n, (rows.last + n - 1) / n};
  }

  /// Fills context.joined with act(gate) * up, in pieces of columns, then waits for the others.
  void join(Context& context, int32_t thread, const ActivationRows& rows, int32_t m) const {
    const int64_t cols = down_->cols();
    const int64_t grain = std::max<int64_t>(context.kernels->strips * kStripRows, down_->group());
    const int64_t grains = (cols + grain - 1) / grain;
    const int64_t at_a_time = std::max<int64_t>(kJoinedFloats / (m * grain), 1);
    for (int32_t index; (index = context.pool->take(thread, context.n_pieces())) >= 0;) {
      const Range mine = context.piece(grains, index);
      for (int64_t first = mine.first; first < mine.last; first += at_a_time) {
        const int64_t last = std::min(first + at_a_time, mine.last);
        join_columns(context, thread, rows, m, {first * grain, std::min(cols, last * grain)});
      }
    }
    context.pool->barrier(thread);
  }

  void join_columns(Context& context, int32_t thread, const ActivationRows& rows, int32_t m,
                    Range columns) const {
    const ThreadScratch& scratch = context.threads[static_cast<size_t>(thread)];
    const int64_t width = columns.last - columns.first;
    // Row by row behind each other: in rows as wide as the matrix they would share few sets of a cache.
    const LinearPart gate = {gate_, {scratch.gate.data() - columns.first, width, bias_of(gate_bias_)}};
    const LinearPart up = {up_, {scratch.up.data() - columns.first, width, bias_of(up_bias_)}};
    multiply_range(context, thread, gate, rows, m, units(*gate_, columns));
    multiply_range(context, thread, up, rows, m, units(*up_, columns));
    activate(context, scratch, m, columns);
  }

  /// Where integers are multiplied nobody reads the floats behind them.
  void activate(const Context& context, const ThreadScratch& scratch, int32_t m, Range columns) const {
    const int64_t cols = down_->cols(), n = columns.last - columns.first;
    for (int64_t r = 0; r < m; ++r) {
      float* gate = scratch.gate.data() + r * n;
      float* out = down_groups_ != 0 ? gate : context.joined.row(r, cols) + columns.first;
      context.kernels->activate(gate_of(op_.activation), gate, scratch.up.data() + r * n, n, out);
      context.joined.quantize(*context.kernels, down_groups_, out, r, cols, columns);
    }
  }

  const ops::Mlp op_;
  const PackedMatrix *gate_, *up_, *down_;
  const std::vector<float> gate_bias_, up_bias_, down_bias_;
  const NormWeights norm_, post_norm_;
  const GroupSet in_groups_, down_groups_;
};

}  // namespace

std::unique_ptr<CpuOperation> make_mlp(const ops::Mlp& op, const LoadContext& load) {
  return std::make_unique<MlpOperation>(op, load);
}

}  // namespace penstock::exec::cpu
