// Launching a planned step and reading the oldest one.
#include <algorithm>

#include "base/error.h"
#include "base/log.h"
#include "engine/engine.h"

namespace penstock::engine {

using base::Code;
using base::Error;

namespace {

std::string text_of(exec::RowError error) {
  return error == exec::RowError::kNoToken ? "[engine.step] expected a token that the sequence's grammar "
                                             "allows; got logits for none of them"
                                           : "[engine.step] expected finite logits; got NaN or infinity";
}

}  // namespace

/// False when there is nothing to launch.
bool Engine::launch_next() {
  const StepPlan plan = plan_next();
  if (plan.rows.empty()) {
    if (launched_.empty() && !running_.empty() && plan.preempted.empty()) {
      Sequence* last = running_.back().get();
      fail({&last, 1}, "[engine.step] expected a sequence that can go on; got none, so the newest one ends");
      drop_settled();
    }
    return false;
  }
  Step step;
  step.rows = planned_;
  step.launched = options_.now();  // an executor may compute before forward() returns
  try {
    launch(plan, step);
  } catch (...) {  // nothing is in flight for this step
    const Failure failure = current_failure();
    fail(step.rows, failure.text);
    drop_settled();
    if (failure.lost) lose(failure.text);
    return true;
  }
  note_launched(plan, step);
  launched_.push_back(std::move(step));
  if (const Step& last = launched_.back(); !last.error.empty()) fail(last.rows, last.error);
  for (const MaskBuilder::Error& error : masks_.errors()) {
    if (!error.sequence->ended) finish(*error.sequence, Finish::kFailed, error.text);
  }
  return true;
}

/// Throws when nothing was launched. After a failure behind forward() the step is in flight all the same.
void Engine::launch(const StepPlan& plan, Step& step) {
  for (Sequence* s : step.rows) {
    if (!s->is_new) continue;
    const std::span<const int32_t> tokens = s->tokens;
    const auto n_prompt = static_cast<size_t>(s->n_prompt);
    executor_->reset_slot(s->slot, tokens.first(n_prompt), tokens.subspan(n_prompt));
  }
  builder_.build(plan, step.rows);
  masks_.start(builder_.guided());
  try {
    step.ticket = executor_->forward(builder_.batch());
  } catch (...) {
    masks_.finish();
    throw;
  }
  masks_.finish();
  for (Sequence* s : step.rows) {
    if (s->is_new) prefix_.launched(*s);
  }
  step.drawing = builder_.drawing();
  if (step.drawing.empty()) return;
  try {
    executor_->sample(step.ticket, builder_.draws(masks_));
  } catch (...) {
    step.error = current_failure().text;
  }
}

void Engine::note_launched(const StepPlan& plan, Step& step) {
  const auto width = static_cast<int32_t>(step.rows.size());
  bool decodes_alone = true;
  for (size_t i = 0; i < step.rows.size(); ++i) {
    Sequence& sequence = *step.rows[i];
    const int32_t n_drafts = plan.rows[i].decode ? plan.rows[i].n_tokens - 1 : 0;
    step.ends.push_back(sequence.position() + plan.rows[i].n_tokens - n_drafts);
    step.n_drafts.push_back(n_drafts);
    step.width += plan.rows[i].n_tokens;
    decodes_alone = decodes_alone && plan.rows[i].decode;
    sequence.drawn = sequence.accepted = 0;
    sequence.receipt.drafted += n_drafts;
    sequence.receipt.draft_steps += n_drafts > 0 ? 1 : 0;
    if (!plan.rows[i].decode) sequence.filled += plan.rows[i].n_tokens;
    ++sequence.in_flight;
    sequence.receipt.max_batch_width = std::max(sequence.receipt.max_batch_width, width);
  }
  if (!decodes_alone) step.width = 0;
  const Sequence* before = nullptr;
  for (Sequence* sequence : step.drawing) {
    if (sequence != before) ++sequence->draws;  // of drafts it is not known yet
    before = sequence;
  }
  count_blocks();
  const std::lock_guard lock(counters_mutex_);
  ++counters_.steps;
  counters_.masks += masks_.n_masks();
  counters_.mask_seconds += masks_.ms() / 1000;
  counters_.max_batch_width = std::max(counters_.max_batch_width, static_cast<uint64_t>(width));
  for (const PlannedRow& row : plan.rows) {
    if (!row.decode) counters_.prompt_tokens += static_cast<uint64_t>(row.n_tokens);
  }
}

void Engine::read_oldest() {
  const Step step = std::move(launched_.front());
  launched_.pop_front();
  for (Sequence* sequence : step.rows) --sequence->in_flight;
  Failure failure;
  try {
    const exec::StepOutput& output = executor_->wait(step.ticket);
    if (step.error.empty()) deliver(step, output);
  } catch (...) {
    failure = current_failure();
  }
  try {
    executor_->release(step.ticket);
  } catch (...) {
    base::log::error("release of a step failed: {}", current_failure().text);
  }
  if (!failure.text.empty() && step.error.empty()) fail(step.rows, failure.text);
  for (Sequence* sequence : step.rows) settle(*sequence);
  drop_settled();
  if (failure.lost) lose(failure.text);
}

/// What the step computed serves others from here on; a draw of an ended sequence was made before its end was
/// known.
void Engine::deliver(const Step& step, const exec::StepOutput& output) {
  for (size_t i = 0; i < step.rows.size(); ++i) {
    if (!step.rows[i]->ended) step.rows[i]->computed = step.ends[i];
  }
  const Sequence* before = nullptr;
  for (size_t draw = 0; draw < step.drawing.size(); ++draw) {
    Sequence& sequence = *step.drawing[draw];
    const bool is_draft = &sequence == before;
    before = &sequence;
    if (is_draft && output.tokens[draw] < 0 && output.errors[draw] == exec::RowError::kNone) continue;
    if (is_draft && !sequence.ended) {
      ++sequence.computed;  // what stands there is what was drawn
      ++sequence.accepted;
      ++sequence.receipt.accepted;
    }
    ++sequence.draws_read;
    ++sequence.drawn;
    if (!sequence.ended) deliver_draw(sequence, output, draw);
  }
  note_drafts(step);
  for (Sequence* sequence : step.rows) {
    if (!sequence->ended) prefix_.enter(*sequence);
  }
}

/// Which drafts were drawn, and what the step cost, for the next proposals.
void Engine::note_drafts(const Step& step) {
  if (drafting_.max_draft_tokens == 0) return;
  if (step.width > 0) speculator_.note_step(step.width, ms_between(step.launched, options_.now()));
  for (size_t i = 0; i < step.rows.size(); ++i) {
    Sequence& s = *step.rows[i];
    if (s.drawn == 0) continue;
    s.draws = s.draws_read;
    speculator_.note_draws(s.track, step.n_drafts[i], s.accepted, s.tokens);
  }
  const std::lock_guard lock(counters_mutex_);
  counters_.drafts = speculator_.stats();
  counters_.draft_model_failures = speculator_.model_failures();
}

void Engine::deliver_draw(Sequence& sequence, const exec::StepOutput& output, size_t draw) {
  if (output.errors[draw] != exec::RowError::kNone) {
    return finish(sequence, Finish::kFailed, text_of(output.errors[draw]));
  }
  const Token token{output.tokens[draw], output.logprobs[draw], output.top[draw]};
  sequence.last_token = token.id;
  if (sequence.draws_read == 1) {
    sequence.first_token = Sequence::Clock::now();
    sequence.receipt.prefill_ms = ms_between(sequence.started, sequence.first_token);
  }
  const std::vector<int32_t>& stop_ids = sequence.job.stop_ids;
  if (std::find(stop_ids.begin(), stop_ids.end(), token.id) != stop_ids.end()) {
    sequence.receipt.stop_id = token.id;
    return finish(sequence, Finish::kStop);
  }
  if (sequence.guide != nullptr) {
    try {
      sequence.guide->accept(token.id);
    } catch (...) {
      return finish(sequence, Finish::kFailed, current_failure().text);
    }
  }
  sequence.tokens.push_back(token.id);
  ++sequence.receipt.completion_tokens;
  {
    const std::lock_guard lock(counters_mutex_);
    ++counters_.completion_tokens;
  }
  try {
    sequence.sink->on_tokens({&token, 1});
  } catch (...) {
    return finish(sequence, Finish::kFailed, current_failure().text);
  }
  if (sequence.guide != nullptr && sequence.guide->is_done()) return finish(sequence, Finish::kStop);
  if (sequence.draws_read == sequence.job.max_tokens) finish(sequence, Finish::kLength);
}

}  // namespace penstock::engine
