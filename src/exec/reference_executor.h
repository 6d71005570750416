// Runs a plan with the scalar references, one token after another, over the same paged cache as real
// executors, and whole texts where the plan encodes: the truth that tests compare with. Slow on purpose.
// Engine thread only, except measure and load.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "exec/executor.h"
#include "exec/slot_tokens.h"
#include "ops/reference.h"

namespace penstock::exec {

class ReferenceExecutor : public Executor {
 public:
  ReferenceExecutor();
  ~ReferenceExecutor() override;

  const Caps& caps() const override { return caps_; }
  MemoryPlan measure(const models::Plan& plan, const ops::WeightTable& weights,
                     const Limits& limits) override;
  void load(const models::Plan& plan, const ops::WeightTable& weights, const Limits& limits) override;
  void reset_slot(int32_t slot, std::span<const int32_t> prompt, std::span<const int32_t> generated) override;
  Ticket forward(const Batch& batch) override;
  void sample(Ticket ticket, const SampleBatch& batch) override;
  const StepOutput& wait(Ticket ticket) override;
  void release(Ticket ticket) override;
  std::span<const float> encode(const TextBatch& batch) override;
  std::vector<std::byte> read_block(int32_t kv_group, int32_t block) override;
  void write_block(int32_t kv_group, int32_t block, std::span<const std::byte> bytes) override;

 private:
  struct Slot;
  struct Step;
  struct TokenRun;

  /// A block's part of each KV layer of the group.
  std::vector<std::span<float>> block_parts(int32_t kv_group, int32_t block);
  void copy_block(const BlockCopy& copy);
  void run_row(Slot& slot, std::span<TokenRun> tokens, std::vector<float>& out);
  void run_token(Slot& slot, const ops::Operation& operation, TokenRun& run, std::vector<float>& out);
  /// Keys and values become what a quantised cache gives back.
  void round_kv(const ops::AttnIn& op, const ops::Rope* rope, ops::AttnInOutput& result);
  void append(Slot& slot, const ops::AttnIn& op, TokenRun& run);
  void attend(Slot& slot, const ops::Attend& op, TokenRun& run);
  std::span<float> kv_entry(Slot& slot, int32_t kv_layer, int32_t position);

  Caps caps_;
  const models::Plan* plan_ = nullptr;
  Limits limits_;
  std::unique_ptr<ops::ReferenceWeights> weights_;
  const ops::WeightTable* table_ = nullptr;
  std::map<int32_t, std::vector<float>> divisors_;  // of each KV layer, where keys are quantised
  std::vector<std::vector<float>> blocks_;          // of each KV layer: [block][position][keys, values]
  std::vector<Slot> slots_;
  std::vector<SlotTokens> tokens_;  // of each slot
  std::map<Ticket, Step> steps_;
  std::vector<float> pooled_;  // of the last encode()
  Ticket next_ticket_ = 1;
};

}  // namespace penstock::exec
