#include "exec/cpu/operations.h"

namespace penstock::exec::cpu {

namespace {

class ProjectOperation final : public CpuOperation {
 public:
  ProjectOperation(const ops::Project& op, const LoadContext& load)
      : op_(op),
        weight_(load.weights.matrix(op.linear.weight)),
        bias_(load.weights.vector(op.linear.bias)),
        post_norm_(load_norm(op.post_norm, load)),
        out_norm_(load_norm(op.out_norm, load)),
        groups_(groups_of({weight_}, load.exact)) {}

  GroupSet groups() const override { return groups_; }

  void run(Context& context, int32_t thread) const override {
    const int32_t m = context.step.n_tokens();
    const int64_t width = context.width(op_.residual);
    const bool normed = post_norm_.present();
    const ActivationRows& rows = prepare(
        context, thread, {context.buffer(op_.in), context.width(op_.in), m, nullptr, nullptr, groups_});
    const LinearPart part = {
        weight_,
        {normed ? context.sum.data() : context.buffer(op_.residual), width, bias_of(bias_), !normed}};
    multiply(context, thread, {&part, 1}, rows, m);
    context.pool->barrier(thread);
    if (!normed && !out_norm_.present()) return;
    if (normed) add_normed(context, thread, post_norm_, context.buffer(op_.residual), width);
    if (out_norm_.present()) norm_rows(context, thread, out_norm_, context.buffer(op_.residual), width);
    context.pool->barrier(thread);
  }

 private:
  const ops::Project op_;
  const PackedMatrix* weight_;
  const std::vector<float> bias_;
  const NormWeights post_norm_, out_norm_;
  const GroupSet groups_;
};

}  // namespace

std::unique_ptr<CpuOperation> make_project(const ops::Project& op, const LoadContext& load) {
  return std::make_unique<ProjectOperation>(op, load);
}

}  // namespace penstock::exec::cpu
