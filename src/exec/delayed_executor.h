// Wraps an executor so that it behaves like a slow device: work is only queued, results exist only in wait(),
// released outputs are poisoned, and misuse of the protocol is an error. For tests: an engine that passes on
// it does not depend on a synchronous CPU. One thread.
#pragma once

#include <deque>
#include <exception>
#include <map>
#include <optional>

#include "exec/executor.h"

namespace penstock::exec {

class DelayedExecutor : public Executor {
 public:
  /// `depth` steps may be in flight, 1 to 3 in the tests.
  DelayedExecutor(std::unique_ptr<Executor> inner, int32_t depth);

  const Caps& caps() const override { return caps_; }
  MemoryPlan measure(const models::Plan& plan, const ops::WeightTable& weights,
                     const Limits& limits) override;
  void load(const models::Plan& plan, const ops::WeightTable& weights, const Limits& limits) override;
  void reset_slot(int32_t slot, std::span<const int32_t> prompt, std::span<const int32_t> generated) override;
  void drop_blocks(int32_t kv_group, std::span<const int32_t> blocks) override {
    inner_->drop_blocks(kv_group, blocks);
  }
  Ticket forward(const Batch& batch) override;
  void sample(Ticket ticket, const SampleBatch& batch) override;
  const StepOutput& wait(Ticket ticket) override;
  void release(Ticket ticket) override;
  std::vector<std::byte> read_block(int32_t kv_group, int32_t block) override;
  void write_block(int32_t kv_group, int32_t block, std::span<const std::byte> bytes) override;

 private:
  struct Reset {
    int32_t slot;
    std::vector<int32_t> prompt, generated;
  };
  struct Write {
    int32_t kv_group, block;
    std::vector<std::byte> bytes;
  };
  struct Results {
    std::vector<int32_t> tokens;
    std::vector<float> logprobs;
    std::vector<std::vector<ops::TopToken>> top;
    std::vector<float> logits;
    std::vector<RowError> errors;
    StepOutput view;
  };
  struct Step {
    std::vector<Reset> resets;  // before the forward
    std::vector<Write> writes;  // likewise
    std::vector<Row> rows;
    std::vector<int32_t> tokens;
    std::vector<TableEdit> table_edits;
    std::vector<BlockCopy> copies;
    int32_t n_logits = 0;
    bool sampled = false;
    std::vector<SampleRow> sample_rows;
    std::vector<ops::Bias> biases;
    std::vector<uint32_t> masks;
    bool ran = false, waited = false;
    std::exception_ptr failure;
    Results results;
  };
  /// What the host may know of a slot.
  struct SlotView {
    std::optional<Ticket> undrawn;  // a step with logits that sample() was not called for
    std::optional<Ticket> unread;   // the last step that drew for it, while its result is pending
    int32_t in_flight = 0;
  };

  void check_row(const Row& row, const Batch& batch);
  void run_through(Ticket ticket);
  void run(Step& step);
  static void keep(Results& results, const StepOutput& output);
  Step& step_of(Ticket ticket, const char* call);

  const std::unique_ptr<Executor> inner_;
  Caps caps_;
  Ticket next_ = 1;
  int32_t in_flight_ = 0;
  std::vector<Reset> resets_;
  std::vector<Write> writes_;
  std::map<Ticket, Step> steps_;
  std::map<int32_t, SlotView> slots_;
  std::deque<Results> poisoned_;  // kept so that a stale view reads poison, not freed memory
};

}  // namespace penstock::exec
