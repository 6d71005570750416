#include "exec/host_sampling.h"

#include <algorithm>
#include <limits>

#include "ops/sample_cut.h"

namespace penstock::exec {

namespace {

/// A NaN or +infinity means that the row's arithmetic failed; minus infinity is a legal "never".
bool can_draw(std::span<const float> logits) {
  thread_local ops::ScannedRow row;
  ops::scan(logits, row);
  return !row.has_bad && row.argmax >= 0;
}

}  // namespace

void OwnedOutput::one_by_one(int32_t n, const std::function<void(int32_t)>& row) {
  for (int32_t i = 0; i < n; ++i) row(i);
}

void OwnedOutput::draw(const SampleBatch& batch, std::span<const LogitRow> rows, std::span<float> logits,
                       Vocab vocab, std::span<SlotTokens> slots, const Each& each) {
  const size_t n = batch.rows.size();
  tokens_.assign(n, -1);
  logprobs_.assign(n, 0);
  top_.assign(n, {});
  errors_.assign(n, RowError::kNone);
  logits_.clear();
  const auto row_logits = [&](size_t i) {
    const auto size = static_cast<size_t>(vocab.size);
    return logits.subspan(static_cast<size_t>(batch.rows[i].logit_row) * size, size);
  };
  std::vector<size_t> firsts;  // of the rows of a slot: drafts follow what they depend on
  for (size_t i = 0; i < n; ++i) {
    if (batch.rows[i].draft == kNoDraft) firsts.push_back(i);
  }
  const auto draw_one = [&](size_t i) {
    const LogitRow& from = rows[static_cast<size_t>(batch.rows[i].logit_row)];
    if (!batch.rows[i].host_logits) {
      const std::span<float> padding = row_logits(i).subspan(static_cast<size_t>(vocab.drawable));
      std::fill(padding.begin(), padding.end(), -std::numeric_limits<float>::infinity());
    }
    draw_row(i, batch, from, row_logits(i), slots[static_cast<size_t>(from.slot)]);
  };
  each(static_cast<int32_t>(firsts.size()), [&](int32_t chain) {
    size_t i = firsts[static_cast<size_t>(chain)];
    do draw_one(i++);
    while (i < n && batch.rows[i].draft != kNoDraft && tokens_[i - 1] == batch.rows[i].draft);
  });
  for (size_t i = 0; i < n; ++i)
    if (batch.rows[i].host_logits) {
      const std::span<const float> row = row_logits(i);
      logits_.insert(logits_.end(), row.begin(), row.end());
    }
}

void OwnedOutput::draw_row(size_t index, const SampleBatch& batch, const LogitRow& from,
                           std::span<const float> logits, SlotTokens& slot) {
  const SampleRow& row = batch.rows[index];
  if (!can_draw(logits)) {
    errors_[index] = RowError::kNotFinite;
    return;
  }
  if (row.host_logits) return;
  const auto biases = batch.biases.subspan(static_cast<size_t>(row.params.first_bias),
                                           static_cast<size_t>(row.params.n_biases));
  const ops::RowEdits edits{biases, slot.counts(),
                            batch.mask_of(row, mask_words(static_cast<int32_t>(logits.size())))};
  ops::Draw draw = ops::sample(logits, row.params, edits, from.next_position, row.top_logprobs);
  if (draw.token < 0) {
    errors_[index] = RowError::kNoToken;
    return;
  }
  slot.drawn(draw.token);
  tokens_[index] = draw.token;
  logprobs_[index] = draw.logprob;
  top_[index] = std::move(draw.top);
}

const StepOutput& OwnedOutput::view() {
  view_ = {tokens_, logprobs_, top_, logits_, errors_};
  return view_;
}

std::vector<LogitRow> logit_rows(const Batch& batch) {
  std::vector<LogitRow> rows;
  for (const Row& row : batch.rows) {
    for (int32_t i = row.n_tokens - row.n_logits; i < row.n_tokens; ++i) {
      rows.push_back({row.slot, row.position + i + 1});
    }
  }
  return rows;
}

}  // namespace penstock::exec
