// Interprets a plan with public MLX operations, in float32: the Metal path, and a second opinion on a CPU.
// One step in flight. Everything that touches an array after load() runs on the engine thread. Bits are not
// promised to be equal across batches.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "exec/executor.h"

namespace penstock::exec::mlx {

class MlxExecutor final : public Executor {
 public:
  MlxExecutor();
  ~MlxExecutor() override;

  const Caps& caps() const override { return caps_; }
  MemoryPlan measure(const models::Plan& plan, const ops::WeightTable& weights,
                     const Limits& limits) override;
  void load(const models::Plan& plan, const ops::WeightTable& weights, const Limits& limits) override;
  void reset_slot(int32_t slot, std::span<const int32_t> prompt, std::span<const int32_t> generated) override;
  Ticket forward(const Batch& batch) override;
  void sample(Ticket ticket, const SampleBatch& batch) override;
  const StepOutput& wait(Ticket ticket) override;
  void release(Ticket ticket) override;

 private:
  struct State;  // MLX types stay out of this header

  Caps caps_;
  std::unique_ptr<State> state_;
};

}  // namespace penstock::exec::mlx
