#include "engine/batch_builder.h"

#include <algorithm>

namespace penstock::engine {

void BatchBuilder::build(const StepPlan& plan, std::span<Sequence* const> sequences) {
  rows_.clear();
  tokens_.clear();
  edits_.clear();
  copies_.clear();
  samples_.clear();
  biases_.clear();
  drawing_.clear();
  guided_.clear();
  edit_tables(plan, sequences);
  for (size_t i = 0; i < plan.rows.size(); ++i) {
    add_row(plan.rows[i], *sequences[i]);
    if (rows_.back().n_logits > 0) add_draws(*sequences[i]);
  }
}

/// What windows release comes before what anyone takes, so that a block can change hands within a step.
void BatchBuilder::edit_tables(const StepPlan& plan, std::span<Sequence* const> sequences) {
  for (Sequence* sequence : sequences) {
    if (sequence->is_new) {
      take_changes(sequence->slot, sequence->adopted);
      copies_.insert(copies_.end(), sequence->copies.begin(), sequence->copies.end());
    }
    changes_.clear();
    sequence->table.shrink(sequence->computed, changes_);  // what was not read yet is not in the index
    take_changes(sequence->slot, changes_);
  }
  for (size_t i = 0; i < plan.rows.size(); ++i) {
    changes_.clear();
    sequences[i]->table.grow(sequences[i]->position() + plan.rows[i].n_tokens, changes_);
    take_changes(sequences[i]->slot, changes_);
  }
}

void BatchBuilder::take_changes(int32_t slot, std::span<const cache::TableChange> changes) {
  for (const cache::TableChange& c : changes) edits_.push_back({slot, c.group, c.index, c.block});
}

void BatchBuilder::add_row(const PlannedRow& planned, const Sequence& sequence) {
  exec::Row row;
  row.slot = sequence.slot;
  row.first_token = static_cast<int32_t>(tokens_.size());
  row.n_tokens = planned.n_tokens;
  row.position = sequence.position();
  const bool drawn = planned.decode || (!role_blind_ && row.position >= sequence.n_prompt);
  row.role = drawn ? exec::Role::kGenerated : exec::Role::kPrompt;
  if (planned.decode) {
    tokens_.push_back(sequence.draws == sequence.draws_read ? sequence.last_token : exec::kOnDevice);
    tokens_.insert(tokens_.end(), sequence.drafts.begin(), sequence.drafts.begin() + row.n_tokens - 1);
    row.n_logits = row.n_tokens;
  } else {
    const auto first = sequence.tokens.begin() + row.position;
    tokens_.insert(tokens_.end(), first, first + row.n_tokens);
    row.n_logits = sequence.draws == 0 && row.position + row.n_tokens == sequence.fill ? 1 : 0;
  }
  rows_.push_back(row);
}

/// One for each logit row of the row added last: behind a draft only if it is what was drawn.
void BatchBuilder::add_draws(Sequence& sequence) {
  exec::SampleRow sample;
  sample.params = sequence.job.params;
  sample.params.first_bias = static_cast<int32_t>(biases_.size());
  sample.params.n_biases = static_cast<int32_t>(sequence.job.biases.size());
  sample.top_logprobs = sequence.job.top_logprobs;
  biases_.insert(biases_.end(), sequence.job.biases.begin(), sequence.job.biases.end());
  const auto n = static_cast<size_t>(rows_.back().n_logits);
  if (sequence.guide != nullptr) {
    guided_.push_back({&sequence, samples_.size(), std::span(sequence.drafts).first(n - 1)});
  }
  for (int32_t i = 0; i < rows_.back().n_logits; ++i) {
    sample.logit_row = static_cast<int32_t>(samples_.size());
    sample.draft = i == 0 ? exec::kNoDraft : sequence.drafts[static_cast<size_t>(i - 1)];
    samples_.push_back(sample);
    drawing_.push_back(&sequence);
  }
}

}  // namespace penstock::engine
