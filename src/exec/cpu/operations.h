// The operations of a plan as this executor runs them: weights packed, one call of run() on every thread of
// a job. run() ends with a barrier wherever the next operation reads what other threads wrote.
#pragma once

#include <memory>

#include "exec/cpu/linear.h"
#include "exec/cpu/weight_store.h"

namespace penstock::exec::cpu {

class CpuOperation {
 public:
  virtual ~CpuOperation() = default;
  virtual void run(Context& context, int32_t thread) const = 0;

  /// Group sizes of quantised activations that run() needs.
  virtual GroupSet groups() const { return 0; }
};

struct LoadContext {
  const models::Plan& plan;
  WeightStore& weights;
  bool exact = false;
  ops::KvFormat kv_format = ops::KvFormat::kPlain;
};

std::unique_ptr<CpuOperation> make_embed(const ops::Embed& op, const LoadContext& load);
std::unique_ptr<CpuOperation> make_attn_in(const ops::AttnIn& op, const LoadContext& load);
std::unique_ptr<CpuOperation> make_attend(const ops::Attend& op, const LoadContext& load);
std::unique_ptr<CpuOperation> make_project(const ops::Project& op, const LoadContext& load);
std::unique_ptr<CpuOperation> make_mlp(const ops::Mlp& op, const LoadContext& load);
std::unique_ptr<CpuOperation> make_head(const ops::Head& op, const LoadContext& load);
std::unique_ptr<CpuOperation> make_pool(const ops::Pool& op, const LoadContext& load);

NormWeights load_norm(const ops::Norm& norm, const LoadContext& load);

}  // namespace penstock::exec::cpu
