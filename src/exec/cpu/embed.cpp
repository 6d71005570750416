#include "exec/cpu/operations.h"
#include "exec/cpu/processor.h"
#include "quant/format.h"

namespace penstock::exec::cpu {

NormWeights load_norm(const ops::Norm& norm, const LoadContext& load) {
  return {load.weights.vector(norm.weight, norm.offset), norm.eps, load.weights.vector(norm.bias)};
}

namespace {

/// Rows are read where they are stored: a step touches few of them.
class EmbedOperation final : public CpuOperation {
 public:
  EmbedOperation(const ops::Embed& op, const LoadContext& load)
      : op_(op),
        table_(load.weights.stored(op.table)),
        types_(rows_of(op.types, load)),
        positions_(rows_of(op.positions, load)),
        norm_(load_norm(op.norm, load)) {}

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
      finish(context, t, row);
    }
  }

  /// Type, position and norm of an encoder's token.
  void finish(const Context& context, int64_t token, std::span<float> row) const {
    const auto t = static_cast<size_t>(token);
    const int32_t type = context.step.types.empty() ? 0 : context.step.types[t];
    for (const auto& [table, index] :
         {std::pair(types_, type), std::pair(positions_, context.step.positions[t])}) {
      if (table == nullptr) continue;
      const std::span<float> more(context.sum.data() + token * table_.cols, row.size());
      table->format->dequantize(*table, index, more);
      context.kernels->add(more.data(), table_.cols, row.data());
    }
    if (norm_.present()) norm_.apply(*context.kernels, row.data(), table_.cols, row.data());
  }

  static const quant::Matrix* rows_of(ops::WeightId id, const LoadContext& load) {
    return id == ops::kNoWeight ? nullptr : &load.weights.stored(id);
  }

  const ops::Embed op_;
  const quant::Matrix& table_;
  const quant::Matrix *types_, *positions_;  // null: none
  const NormWeights norm_;
};

}  // namespace

std::unique_ptr<CpuOperation> make_embed(const ops::Embed& op, const LoadContext& load) {
  return std::make_unique<EmbedOperation>(op, load);
}

}  // namespace penstock::exec::cpu
