// Feeds token ids through a loaded executor and collects the logits of every position: prompts in chunks of
// any size, one token at a time, several sequences in one ragged step. For `logits`, benchmarks and tests; it
// neither samples nor stops.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "exec/executor.h"

namespace penstock::exec {

class LogitsRunner {
 public:
  /// `executor` is loaded with `plan` within `limits`; both must outlive the runner.
  LogitsRunner(Executor& executor, const models::Plan& plan, Limits limits);

  /// Blocks of each KV group that `limits` needs for all its slots to reach its context.
  static std::vector<int32_t> blocks_for(const Executor& executor, const models::Plan& plan,
                                         const Limits& limits);

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

  void cover(int32_t slot, size_t end, std::vector<TableEdit>& edits);
  void step(const std::vector<Feed>& feeds, std::vector<Cursor>& cursors,
            std::vector<std::vector<float>>& logits);

  Executor& executor_;
  const models::Plan& plan_;
  Limits limits_;
  std::vector<size_t> covered_;  // blocks that each slot has, in every group
  std::vector<int32_t> free_blocks_;
};

}  // namespace penstock::exec
