#include "exec/host_sampling.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace penstock::exec {

void OwnedOutput::draw(const SampleBatch& batch, std::span<const LogitRow> rows,
                       std::span<const float> logits, int32_t vocab, std::span<SlotTokens> slots) {
  *this = OwnedOutput();
  for (const SampleRow& row : batch.rows) {
    const auto offset = static_cast<size_t>(row.logit_row) * static_cast<size_t>(vocab);
    const LogitRow& from = rows[static_cast<size_t>(row.logit_row)];
    draw_row(row, batch, from, logits.subspan(offset, static_cast<size_t>(vocab)),
             slots[static_cast<size_t>(from.slot)]);
  }
}

void OwnedOutput::draw_row(const SampleRow& row, const SampleBatch& batch, const LogitRow& from,
                           std::span<const float> logits, SlotTokens& slot) {
  ops::Draw draw;
  // A NaN or +infinity means that the row's arithmetic failed; minus infinity is a legal "never".
  const auto bad = [](float x) { return std::isnan(x) || x == std::numeric_limits<float>::infinity(); };
  const bool failed = std::any_of(logits.begin(), logits.end(), bad) ||
                      std::none_of(logits.begin(), logits.end(), [](float x) { return std::isfinite(x); });
  if (row.host_logits) {
    logits_.insert(logits_.end(), logits.begin(), logits.end());
  } else if (!failed) {
    const auto biases = batch.biases.subspan(static_cast<size_t>(row.params.first_bias),
                                             static_cast<size_t>(row.params.n_biases));
    draw = ops::sample(logits, row.params, biases, slot.counts(), from.next_position, row.top_logprobs);
    slot.drawn(draw.token);
  }
  errors_.push_back(failed ? RowError::kNotFinite : RowError::kNone);
  tokens_.push_back(draw.token);
  logprobs_.push_back(draw.logprob);
  top_.push_back(std::move(draw.top));
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
