// Turns a plan into what an executor takes: rows, tokens, table edits, draws. Takes and gives back the blocks
// of the sequences on the way. Engine thread; the arrays live until the next build.
#pragma once

#include "engine/mask_builder.h"
#include "engine/scheduler.h"
#include "engine/sequence.h"
#include "exec/executor.h"

namespace penstock::engine {

class BatchBuilder {
 public:
  /// `role_blind`: Caps'. Otherwise what a sequence has drawn keeps its role where it is computed again.
  explicit BatchBuilder(bool role_blind) : role_blind_(role_blind) {}

  /// `sequences` [rows of the plan]. Throws what SequenceTable throws.
  void build(const StepPlan& plan, std::span<Sequence* const> sequences);

  exec::Batch batch() const { return {rows_, tokens_, edits_, copies_}; }
  exec::SampleBatch draws(const MaskBuilder& masks) {
    masks.apply(samples_);
    return {samples_, biases_, masks.words()};
  }
  /// Of sequences with a guide; their drafts are the sequences' own.
  const std::vector<GuidedRow>& guided() const { return guided_; }
  /// The sequence of each draw.
  const std::vector<Sequence*>& drawing() const { return drawing_; }

 private:
  void edit_tables(const StepPlan& plan, std::span<Sequence* const> sequences);
  void take_changes(int32_t slot, std::span<const cache::TableChange> changes);
  void add_row(const PlannedRow& planned, const Sequence& sequence);
  void add_draws(Sequence& sequence);

  const bool role_blind_;
  std::vector<exec::Row> rows_;
  std::vector<int32_t> tokens_;
  std::vector<exec::TableEdit> edits_;
  std::vector<exec::BlockCopy> copies_;
  std::vector<exec::SampleRow> samples_;
  std::vector<ops::Bias> biases_;
  std::vector<Sequence*> drawing_;
  std::vector<GuidedRow> guided_;
  std::vector<cache::TableChange> changes_;
};

}  // namespace penstock::engine
