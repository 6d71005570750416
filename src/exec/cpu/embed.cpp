#include "exec/cpu/operations.h"
#include "exec/cpu/processor.h"
#include "quant/format.h"

namespace penstock::exec::cpu {

NormWeights load_norm(const ops::Norm& norm, const LoadContext& load) {
  return {load.weights.vector(norm.weight, norm.offset), norm.eps};
}

namespace {

/// Rows are read where they are stored: a step touches few of them.
class EmbedOperation final : public CpuOperation {
 public:
  EmbedOperation(const ops::Embed& op, const quant::Matrix& table) : op_(op), table_(table) {}

  void run(Context& context, int32_t thread) const override {
    fill(context, context.share(context.step.n_tokens(), thread));
    context.pool->barrier(thread);
  }

 private:
  void fill(const Context& context, Range mine) const {
    const DenormalScope scope(Denormals::kKept);
    for (int64_t t = mine.first; t < mine.last; ++t) {
      float* out = context.buffer(op_.out) + t * table_.cols;
      const std::span<float> row(out, static_cast<size_t>(table_.cols));
      table_.format->dequantize(table_, context.step.ids[static_cast<size_t>(t)], row);
      if (op_.scale != 1)
        for (float& value : row) value *= op_.scale;
    }
  }

  const ops::Embed op_;
  const quant::Matrix& table_;
};

}  // namespace

std::unique_ptr<CpuOperation> make_embed(const ops::Embed& op, const LoadContext& load) {
  return std::make_unique<EmbedOperation>(op, load.weights.stored(op.table));
}

}  // namespace penstock::exec::cpu
