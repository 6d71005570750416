// Runs plans on an NVIDIA device with own kernels. Engine thread only, except measure and load. Two steps in
// flight: forward() and sample() enqueue, wait() reads; draws with masks, biases, alternatives or logprobs
// after penalties are made on the host inside sample(), which then waits.
#pragma once

#include <cstddef>
#include <memory>

#include "exec/executor.h"

namespace penstock::exec::cuda {

class CudaExecutor final : public Executor {
 public:
  /// Throws Error(kUnsupported) without a driver and a device.
  CudaExecutor();
  ~CudaExecutor() override;

  /// Devices that this process can use; 0 without a driver.
  static int32_t devices();

  const Caps& caps() const override { return caps_; }
  MemoryPlan measure(const models::Plan& plan, const ops::WeightTable& weights,
                     const Limits& limits) override;
  void load(const models::Plan& plan, const ops::WeightTable& weights, const Limits& limits) override;
  void reset_slot(int32_t slot, std::span<const int32_t> prompt,
                  std::span<const int32_t> generated) override;
  Ticket forward(const Batch& batch) override;
  void sample(Ticket ticket, const SampleBatch& batch) override;
  const StepOutput& wait(Ticket ticket) override;
  void release(Ticket ticket) override;

 private:
  struct State;
  Caps caps_;
  std::unique_ptr<State> state_;
};

}  // namespace penstock::exec::cuda
