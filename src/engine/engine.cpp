#include "engine/engine.h"

#include <algorithm>

#include "base/error.h"
#include "base/log.h"
#include "engine/admission.h"

namespace penstock::engine {
namespace {

using base::Code;
using base::Error;

double ms_between(Sequence::Clock::time_point from, Sequence::Clock::time_point to) {
  return std::chrono::duration<double, std::milli>(to - from).count();
}

cache::Groups make_groups(const models::Plan& plan, const EngineOptions& options, int32_t block_tokens) {
  if (options.n_blocks.size() != plan.kv_groups.size()) {
    throw Error(Code::kInvalidRequest, "[engine.engine] expected block counts of " +
                                           std::to_string(plan.kv_groups.size()) + " KV groups; got " +
                                           std::to_string(options.n_blocks.size()));
  }
  cache::Groups groups{block_tokens, {}};
  for (size_t g = 0; g < options.n_blocks.size(); ++g) {
    groups.list.push_back({plan.kv_groups[g].window, cache::BlockPool(options.n_blocks[g])});
  }
  return groups;
}

struct Failure {
  std::string text;
  bool lost = false;  // the executor can do nothing any more
};

/// What is being thrown.
Failure current_failure() {
  try {
    throw;
  } catch (const Error& e) {
    return {e.what(), e.code() == Code::kUnavailable};
  } catch (const std::exception& e) {
    return {e.what()};
  } catch (...) {
    return {"[engine.engine] expected an error of a known type; got another"};
  }
}

std::string current_error() {
  return current_failure().text;
}

}  // namespace

Engine::Engine(std::unique_ptr<exec::Executor> executor, const models::Plan& plan, EngineOptions options)
    : executor_(std::move(executor)),
      options_(std::move(options)),
      vocab_(plan.vocab),
      depth_(static_cast<size_t>(std::max(1, executor_->caps().steps_in_flight))),
      groups_(make_groups(plan, options_, executor_->caps().block_tokens)),
      inbox_(static_cast<size_t>(options_.max_seqs) + static_cast<size_t>(options_.max_queue)) {
  check_options(options_);
  const int32_t wanted =
      options_.context_length > 0 ? std::min(options_.context_length, plan.max_position) : plan.max_position;
  context_length_ = context_that_fits(groups_, wanted, options_.prefill_chunk_tokens);
  for (int32_t slot = 0; slot < options_.max_seqs; ++slot) free_slots_.insert(slot);
  for (const cache::Group& group : groups_.list) {
    counters_.blocks_total += static_cast<uint64_t>(group.pool.total());
  }
  thread_ = std::thread([this] { run(); });
}

Engine::~Engine() {
  Engine::stop();
}

uint64_t Engine::submit(Job job, std::shared_ptr<Sink> sink) {
  try {
    check_job(job, vocab_, context_length_);
  } catch (const Error&) {
    const std::lock_guard lock(counters_mutex_);
    ++counters_.refused;
    throw;
  }
  auto sequence = std::make_unique<Sequence>();
  const auto prompt_tokens = static_cast<int32_t>(job.prompt.size());
  job.max_tokens = std::min(job.max_tokens, context_length_ - prompt_tokens);
  // The last token drawn is never fed, so it needs no block.
  sequence->blocks_needed =
      groups_.blocks_needed(prompt_tokens + job.max_tokens - 1, options_.prefill_chunk_tokens);
  sequence->job = std::move(job);
  sequence->sink = std::move(sink);
  sequence->submitted = Sequence::Clock::now();
  sequence->receipt.prompt_tokens = prompt_tokens;
  sequence->receipt.executor = executor_->caps().name;

  const std::lock_guard lock(counters_mutex_);
  if (stopping_) throw Error(Code::kUnavailable, "[engine.submit] expected a running engine; it is stopped");
  if (!lost_.empty()) throw Error(Code::kUnavailable, lost_);
  const uint64_t room = static_cast<uint64_t>(options_.max_seqs) + static_cast<uint64_t>(options_.max_queue);
  if (counters_.running + counters_.waiting >= room) {
    ++counters_.refused;
    throw Error(Code::kOverloaded, "[engine.submit] expected fewer than " + std::to_string(room) +
                                       " jobs in the engine; all places are taken");
  }
  const uint64_t id = sequence->id = next_id_++;
  inbox_.push_always(std::move(sequence));
  ++counters_.submitted;
  ++counters_.waiting;
  return id;
}

void Engine::cancel(uint64_t id) {
  inbox_.push_always(id);
}

Counters Engine::counters() const {
  const std::lock_guard lock(counters_mutex_);
  return counters_;
}

void Engine::stop() {
  {
    const std::lock_guard lock(counters_mutex_);
    stopping_ = true;
  }
  inbox_.close();
  const std::lock_guard lock(stop_mutex_);
  if (thread_.joinable()) thread_.join();
}

void Engine::run() {
  while (take_commands()) {
    while (launched_.size() < depth_ && launch_next()) {
    }
    if (!launched_.empty()) read_oldest();
  }
}

/// Sleeps on the inbox while there is nothing to do. False after stop, when nothing is left.
bool Engine::take_commands() {
  if (waiting_.empty() && running_.empty()) {
    std::optional<Command> command = inbox_.pop();
    if (!command) return false;
    take(std::move(*command));
  }
  while (std::optional<Command> command = inbox_.try_pop()) take(std::move(*command));
  bool stopping = false;
  {
    const std::lock_guard lock(counters_mutex_);
    stopping = stopping_;
  }
  if (stopping) cancel_everything();
  return true;
}

void Engine::take(Command command) {
  if (auto* sequence = std::get_if<std::unique_ptr<Sequence>>(&command)) {
    waiting_.push_back(std::move(*sequence));
    return;
  }
  const uint64_t id = std::get<uint64_t>(command);
  const auto has_id = [id](const auto& sequence) { return sequence->id == id; };
  if (const auto it = std::find_if(waiting_.begin(), waiting_.end(), has_id); it != waiting_.end()) {
    const std::unique_ptr<Sequence> sequence = std::move(*it);
    waiting_.erase(it);
    finish(*sequence, Finish::kCancelled);
  } else if (const auto found = std::find_if(running_.begin(), running_.end(), has_id);
             found != running_.end() && !(*found)->ended) {
    finish(**found, Finish::kCancelled);
    settle(**found);
    drop_settled();
  }
}

void Engine::cancel_everything() {
  while (!waiting_.empty()) {
    const std::unique_ptr<Sequence> sequence = std::move(waiting_.front());
    waiting_.pop_front();
    finish(*sequence, Finish::kCancelled);
  }
  for (const auto& sequence : running_) {
    if (!sequence->ended) finish(*sequence, Finish::kCancelled);
    settle(*sequence);
  }
  drop_settled();
}

/// False when there is nothing to launch.
bool Engine::launch_next() {
  const StepPlan plan = plan_next();
  if (plan.rows.empty()) return false;
  admit(plan.n_admitted);
  Step step;
  step.rows = rows_of(plan);
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
  return true;
}

StepPlan Engine::plan_next() const {
  std::vector<WaitingView> waiting;
  for (const auto& s : waiting_) {
    if (waiting.size() == free_slots_.size()) break;
    waiting.push_back({s->prompt_tokens(), s->blocks_needed});
  }
  std::vector<RunningView> running;
  for (const auto& s : running_) {
    const int32_t done = s->ended ? s->prompt_tokens() : s->prompt_done;
    running.push_back({s->prompt_tokens(), done, s->may_decode()});
  }
  Budgets budgets{
      options_.max_batch_tokens, options_.prefill_chunk_tokens, static_cast<int32_t>(free_slots_.size()), {}};
  for (const cache::Group& group : groups_.list) budgets.free_blocks.push_back(group.pool.unreserved());
  return plan_step(waiting, running, std::move(budgets));
}

void Engine::admit(int32_t n) {
  for (; n > 0; --n) {
    std::unique_ptr<Sequence> sequence = std::move(waiting_.front());
    waiting_.pop_front();
    if (!sequence->table.open(groups_, sequence->blocks_needed)) {
      throw Error(Code::kInternal, "[engine.admit] expected the blocks that the plan counted on");
    }
    sequence->slot = *free_slots_.begin();
    free_slots_.erase(free_slots_.begin());
    sequence->started = Sequence::Clock::now();
    sequence->receipt.queue_ms = ms_between(sequence->submitted, sequence->started);
    running_.push_back(std::move(sequence));
    const std::lock_guard lock(counters_mutex_);
    --counters_.waiting;
    ++counters_.running;
  }
}

std::vector<Sequence*> Engine::rows_of(const StepPlan& plan) const {
  std::vector<Sequence*> rows;
  for (const PlannedRow& row : plan.rows) rows.push_back(running_[static_cast<size_t>(row.sequence)].get());
  return rows;
}

/// Throws when nothing was launched. After a failure behind forward() the step is in flight all the same.
void Engine::launch(const StepPlan& plan, Step& step) {
  for (Sequence* sequence : step.rows) {
    if (sequence->prompt_done == 0) executor_->reset_slot(sequence->slot, sequence->job.prompt);
  }
  builder_.build(plan, step.rows);
  step.ticket = executor_->forward(builder_.batch());
  step.drawing = builder_.drawing();
  if (step.drawing.empty()) return;
  try {
    executor_->sample(step.ticket, builder_.draws());
  } catch (...) {
    step.error = current_error();
  }
}

void Engine::note_launched(const StepPlan& plan, const Step& step) {
  const auto width = static_cast<int32_t>(step.rows.size());
  for (size_t i = 0; i < step.rows.size(); ++i) {
    Sequence& sequence = *step.rows[i];
    if (!plan.rows[i].decode) sequence.prompt_done += plan.rows[i].n_tokens;
    ++sequence.in_flight;
    sequence.receipt.max_batch_width = std::max(sequence.receipt.max_batch_width, width);
  }
  for (Sequence* sequence : step.drawing) ++sequence->draws;
  uint64_t used = 0;
  for (const cache::Group& group : groups_.list) used += static_cast<uint64_t>(group.pool.used());
  const std::lock_guard lock(counters_mutex_);
  ++counters_.steps;
  counters_.blocks_used = used;
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
    base::log::error("release of a step failed: {}", current_error());
  }
  if (!failure.text.empty() && step.error.empty()) fail(step.rows, failure.text);
  for (Sequence* sequence : step.rows) settle(*sequence);
  drop_settled();
  if (failure.lost) lose(failure.text);
}

void Engine::deliver(const Step& step, const exec::StepOutput& output) {
  for (size_t draw = 0; draw < step.drawing.size(); ++draw) {
    Sequence& sequence = *step.drawing[draw];
    ++sequence.draws_read;
    if (!sequence.ended) deliver_draw(sequence, output, draw);  // else: drawn before its end was known
  }
}

void Engine::deliver_draw(Sequence& sequence, const exec::StepOutput& output, size_t draw) {
  if (output.errors[draw] != exec::RowError::kNone) {
    return finish(sequence, Finish::kFailed, "[engine.step] expected finite logits; got NaN or infinity");
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
  ++sequence.receipt.completion_tokens;
  {
    const std::lock_guard lock(counters_mutex_);
    ++counters_.completion_tokens;
  }
  try {
    sequence.sink->on_tokens({&token, 1});
  } catch (...) {
    return finish(sequence, Finish::kFailed, current_error());
  }
  if (sequence.draws_read == sequence.job.max_tokens) finish(sequence, Finish::kLength);
}

void Engine::fail(std::span<Sequence* const> sequences, const std::string& error) {
  base::log::error("a step of {} sequences failed: {}", sequences.size(), error);
  for (Sequence* sequence : sequences) {
    if (!sequence->ended) finish(*sequence, Finish::kFailed, error);
    settle(*sequence);
  }
}

/// Ends everything with the reason; what is submitted from here on is refused with it.
void Engine::lose(const std::string& error) {
  {
    const std::lock_guard lock(counters_mutex_);
    if (!lost_.empty()) return;
    lost_ = error;
  }
  base::log::error("the executor is lost: {}", error);
  while (!waiting_.empty()) {
    const std::unique_ptr<Sequence> sequence = std::move(waiting_.front());
    waiting_.pop_front();
    finish(*sequence, Finish::kFailed, error);
  }
  for (const auto& sequence : running_)
    if (!sequence->ended) finish(*sequence, Finish::kFailed, error);
  drop_settled();
  if (options_.on_lost) options_.on_lost();
}

/// Frees what can be freed, counts, then tells the sink, in this order: who hears the end may rely on it.
void Engine::finish(Sequence& sequence, Finish why, const std::string& error) {
  const bool ran = sequence.slot >= 0;
  sequence.ended = true;
  Receipt& receipt = sequence.receipt;
  receipt.finish = why;
  receipt.error = error;
  const auto now = Sequence::Clock::now();
  if (!ran) receipt.queue_ms = ms_between(sequence.submitted, now);
  if (sequence.draws_read > 0) receipt.decode_ms = ms_between(sequence.first_token, now);
  settle(sequence);
  {
    const std::lock_guard lock(counters_mutex_);
    --(ran ? counters_.running : counters_.waiting);
    if (why == Finish::kCancelled) ++counters_.cancelled;
    if (why == Finish::kFailed) ++counters_.failed;
    if (why == Finish::kStop || why == Finish::kLength) ++counters_.finished;
  }
  const std::shared_ptr<Sink> sink = std::move(sequence.sink);
  try {
    sink->on_finish(receipt);
  } catch (...) {
    base::log::error("a sink failed at the end of its job: {}", current_error());
  }
}

/// Gives back slot and blocks of an ended sequence, once no step in flight writes to them.
void Engine::settle(Sequence& sequence) {
  if (!sequence.ended || sequence.in_flight > 0 || sequence.slot < 0) return;
  sequence.table.close();
  free_slots_.insert(sequence.slot);
  sequence.slot = -1;
  uint64_t used = 0;
  for (const cache::Group& group : groups_.list) used += static_cast<uint64_t>(group.pool.used());
  const std::lock_guard lock(counters_mutex_);
  counters_.blocks_used = used;
}

void Engine::drop_settled() {
  std::erase_if(running_, [](const auto& s) { return s->ended && s->slot < 0; });
}

}  // namespace penstock::engine
