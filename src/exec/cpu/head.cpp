#include <algorithm>

#include "exec/cpu/operations.h"

namespace penstock::exec::cpu {

namespace {

/// Only rows that ask for logits are multiplied.
class HeadOperation final : public CpuOperation {
 public:
  HeadOperation(const ops::Head& op, const LoadContext& load)
      : op_(op),
        weight_(load.weights.matrix(op.weight)),
        norm_(load_norm(op.norm, load)),
        groups_(groups_of({weight_}, load.exact)) {}

  GroupSet groups() const override { return groups_; }

  void run(Context& context, int32_t thread) const override {
    const int32_t n = context.step.n_logits();
    const int32_t vocab = context.plan->vocab;
    for (int32_t first = 0; first < n; first += context.max_tokens) {
      const int32_t m = std::min(context.max_tokens, n - first);
      const ActivationRows& rows = prepare(context, thread,
                                           {context.buffer(op_.in), context.width(op_.in), m, &norm_,
                                            context.step.logit_tokens.data() + first, groups_});
      float* logits = context.logits.data() + int64_t{first} * vocab;
      const LinearPart part = {weight_, {logits, vocab, nullptr}};
      multiply(context, thread, {&part, 1}, rows, m);
      context.pool->barrier(thread);
      if (op_.softcap > 0) cap(context, thread, logits, int64_t{m} * vocab);
    }
  }

 private:
  void cap(const Context& context, int32_t thread, float* logits, int64_t n) const {
    const Range mine = context.share((n + 7) / 8, thread);
    context.kernels->softcap(logits + mine.first * 8, std::min(n, mine.last * 8) - mine.first * 8,
                             op_.softcap);
    context.pool->barrier(thread);
  }

  const ops::Head op_;
  const PackedMatrix* weight_;
  const NormWeights norm_;
  const GroupSet groups_;
};

}  // namespace

std::unique_ptr<CpuOperation> make_head(const ops::Head& op, const LoadContext& load) {
  return std::make_unique<HeadOperation>(op, load);
}

}  // namespace penstock::exec::cpu
