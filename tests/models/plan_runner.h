// Feeds token ids through an executor and collects the logits of every position: prompts in chunks of any
// size, one token at a time, several sequences in one ragged step.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "exec/executor.h"
#include "models/model_files.h"

namespace penstock::models {

class PlanRunner {
 public:
  /// Loads `files` (which must outlive the runner) for up to `max_slots` sequences of `max_context` tokens.
  PlanRunner(exec::Executor& executor, const ModelFiles& files, exec::Limits limits);

  /// One sequence: its tokens and how many go into each step (the last number repeats).
  struct Feed {
    std::vector<int32_t> tokens;
    std::vector<int32_t> cuts;
    int32_t generated_from = INT32_MAX;  // tokens from this index on have role kGenerated
  };

  /// Runs all feeds side by side, one step after another; returns the logits [tokens, vocab] of each.
  std::vector<std::vector<float>> run(const std::vector<Feed>& feeds);

 private:
  struct Cursor {
    size_t done = 0, step = 0;
  };

  void cover(int32_t slot, size_t end, std::vector<exec::TableEdit>& edits);
  void step(const std::vector<Feed>& feeds, std::vector<Cursor>& cursors,
            std::vector<std::vector<float>>& logits);

  exec::Executor& executor_;
  const ModelFiles& files_;
  exec::Limits limits_;
  std::vector<size_t> covered_;  // blocks that each slot has, in every group
  std::vector<int32_t> free_blocks_;
};

}  // namespace penstock::models
