// An executor without a model, for engine tests: the logits of a token are a hash of what its sequence's
// block tables and positions lead to, so a wrong table, a missing key or a stale slot changes the output or
// throws. One thread.
#pragma once

#include <functional>
#include <map>
#include <optional>

#include "exec/executor.h"

namespace penstock::testing {

struct FakeOptions {
  int32_t vocab = 97;
  int32_t max_position = 4096;
  int32_t block_tokens = 16;
  std::vector<int32_t> windows = {0, 40};  // one KV group each
  std::vector<int32_t> n_blocks = {512, 128};
  int32_t max_slots = 8;
  int32_t max_batch_tokens = 512;
  bool role_blind = true;
  int32_t explode_token = -1;            // a step that is given this id throws
  int32_t lost_token = -1;               // wait() of a step that is given this id throws, and all after it
  int32_t errs_every = 0;                // the logits at positions that it divides are others
  int32_t nan_token = -1;                // logits behind this id are NaN
  std::function<void(int32_t)> on_step;  // called at the start of each forward with its number
  std::function<void(int32_t group, size_t n_blocks)> on_drop;  // called when blocks are dropped
};

models::Plan fake_plan(const FakeOptions& options);

class FakeExecutor : public exec::Executor {
 public:
  explicit FakeExecutor(FakeOptions options);

  const exec::Caps& caps() const override { return caps_; }
  exec::MemoryPlan measure(const models::Plan&, const ops::WeightTable&, const exec::Limits&) override {
    return {};
  }
  void load(const models::Plan&, const ops::WeightTable&, const exec::Limits&) override {}
  void reset_slot(int32_t slot, std::span<const int32_t> prompt, std::span<const int32_t> generated) override;
  void drop_blocks(int32_t kv_group, std::span<const int32_t> blocks) override;
  exec::Ticket forward(const exec::Batch& batch) override;
  void sample(exec::Ticket ticket, const exec::SampleBatch& batch) override;
  const exec::StepOutput& wait(exec::Ticket ticket) override;
  void release(exec::Ticket ticket) override;
  std::vector<std::byte> read_block(int32_t kv_group, int32_t block) override;
  void write_block(int32_t kv_group, int32_t block, std::span<const std::byte> bytes) override;

 private:
  struct Key {
    uint64_t hash = 0;
    int32_t position = -1;
  };
  struct Slot {
    bool open = false, lost = false, is_new = true;
    int32_t kv_len = 0, last_token = -1;
    std::vector<std::vector<int32_t>> tables;  // [groups][index]: block, -1 none, -2 written by another slot
    std::map<int32_t, ops::TokenCounts> counts;
  };
  struct LogitRow {
    int32_t slot = 0, position = 0;
    std::vector<float> logits;
  };

  std::span<Key> block(int32_t kv_group, int32_t block);
  void apply(const exec::TableEdit& edit);
  void check_batch(const exec::Batch& batch) const;
  void run_row(const exec::Row& row, std::span<const int32_t> tokens);
  Key& key_at(Slot& slot, size_t group, int32_t position);
  Key& own_key_at(const exec::Row& row, size_t group, int32_t position);
  int32_t token_at(const exec::Row& row, int32_t given, const Slot& slot) const;
  std::vector<float> logits_at(Slot& slot, int32_t position, int32_t token);
  void draw(const exec::SampleRow& row, const exec::SampleBatch& batch);

  const FakeOptions options_;
  exec::Caps caps_;
  std::vector<Slot> slots_;
  std::vector<std::vector<Key>> keys_;  // [groups][block * block_tokens + offset]
  int32_t steps_ = 0;
  bool lost_ = false;
  std::optional<exec::Ticket> pending_;
  std::vector<LogitRow> logit_rows_;
  std::vector<int32_t> tokens_;
  std::vector<float> logprobs_;
  std::vector<std::vector<ops::TopToken>> top_;
  std::vector<exec::RowError> errors_;
  exec::StepOutput output_;
};

}  // namespace penstock::testing
