// Runs plans on the processor: packed integer weights, own kernels, own threads. Engine thread only, except
// measure and load. One step in flight: forward() computes before it returns.
#pragma once

#include <exception>
#include <memory>
#include <vector>

#include "exec/cpu/contention_guard.h"
#include "exec/cpu/operations.h"
#include "exec/cpu/processor.h"
#include "exec/executor.h"
#include "exec/host_sampling.h"
#include "exec/slot_tokens.h"

namespace penstock::exec::cpu {

class CpuExecutor final : public Executor {
 public:
  explicit CpuExecutor(Isa isa = Isa::kBest);
  ~CpuExecutor() override;

  const Caps& caps() const override { return caps_; }
  MemoryPlan measure(const models::Plan& plan, const ops::WeightTable& weights,
                     const Limits& limits) override;
  void load(const models::Plan& plan, const ops::WeightTable& weights, const Limits& limits) override;
  void reset_slot(int32_t slot, std::span<const int32_t> prompt, std::span<const int32_t> generated) override;
  void drop_blocks(int32_t kv_group, std::span<const int32_t> blocks) override;
  Ticket forward(const Batch& batch) override;
  void sample(Ticket ticket, const SampleBatch& batch) override;
  const StepOutput& wait(Ticket ticket) override;
  void release(Ticket ticket) override;
  std::span<const float> encode(const TextBatch& batch) override;
  std::vector<std::byte> read_block(int32_t kv_group, int32_t block) override;
  void write_block(int32_t kv_group, int32_t block, std::span<const std::byte> bytes) override;

 private:
  void compute(const Batch& batch);
  void clear_step();
  void run_step();
  void turn_table(int32_t thread);
  void require_ticket(Ticket ticket) const;

  const Kernels& kernels_;
  Caps caps_;
  Limits limits_;
  std::unique_ptr<ThreadPool> pool_;
  std::unique_ptr<WeightStore> weights_;
  std::vector<std::unique_ptr<CpuOperation>> operations_;
  std::unique_ptr<Context> context_;
  ContentionGuard guard_;

  std::vector<SlotTokens> tokens_;  // of each slot
  std::vector<LogitRow> logit_rows_;
  OwnedOutput output_;
  std::exception_ptr failure_;
  Ticket ticket_ = 0, next_ticket_ = 1;  // 0: none in flight
};

}  // namespace penstock::exec::cpu
