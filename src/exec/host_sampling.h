// Drawing on the host for executors whose logits lie in host memory, and the owned storage behind a
// StepOutput.
#pragma once

#include <algorithm>
#include <functional>
#include <span>
#include <vector>

#include "exec/executor.h"
#include "exec/slot_tokens.h"

namespace penstock::exec {

/// Where a logit row came from.
struct LogitRow {
  int32_t slot = 0;
  int32_t next_position = 0;  // of the token that this row draws
};

/// Columns of a logit row, and how many of them, from the first, are tokens that may be drawn.
struct Vocab {
  int32_t size = 0;
  int32_t drawable = 0;

  Vocab(int32_t size, const Limits& limits)
      : size(size), drawable(limits.vocab_tokens ? std::min(limits.vocab_tokens(), size) : size) {}
};

/// Owns what a StepOutput shows. view() stays valid until the next draw.
class OwnedOutput {
 public:
  /// Draws every row of `batch` from `logits` [rows, vocab] and counts it in its slot's tokens. A row without
  /// a finite logit fails alone, one whose draft was not drawn draws nothing. The logits of tokens that may
  /// not be drawn become minus infinity. `each(n, row)` calls row(0) .. row(n - 1), at once if it has threads
  /// for them: one for each slot.
  using Each = std::function<void(int32_t n, const std::function<void(int32_t)>& row)>;
  void draw(const SampleBatch& batch, std::span<const LogitRow> rows, std::span<float> logits, Vocab vocab,
            std::span<SlotTokens> slots, const Each& each = one_by_one);

  const StepOutput& view();

 private:
  static void one_by_one(int32_t n, const std::function<void(int32_t)>& row);
  void draw_row(size_t index, const SampleBatch& batch, const LogitRow& from, std::span<const float> logits,
                SlotTokens& slot);

  std::vector<int32_t> tokens_;
  std::vector<float> logprobs_;
  std::vector<std::vector<ops::TopToken>> top_;
  std::vector<float> logits_;
  std::vector<RowError> errors_;
  StepOutput view_;
};

/// The LogitRow of every logit row of a batch, in order.
std::vector<LogitRow> logit_rows(const Batch& batch);

}  // namespace penstock::exec
