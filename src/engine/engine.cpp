#include "engine/engine.h"

#include <algorithm>

#include "base/error.h"
#include "base/log.h"
#include "engine/admission.h"

namespace penstock::engine {
namespace {

using base::Code;
using base::Error;

constexpr std::chrono::milliseconds kFlushWait{3000};  // for the disk, at the end

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

/// Tokens that a job makes the engine compute and draw, at most.
int64_t cost_of(const Sequence& sequence) {
  return int64_t{sequence.n_prompt} + sequence.job.max_tokens;
}

WaitingJob waiting_job(const Sequence& first, size_t members) {
  return {first.id, first.job.priority, first.job.tenant, cost_of(first) * static_cast<int64_t>(members),
          first.submitted};
}

}  // namespace

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

Engine::Engine(std::unique_ptr<exec::Executor> executor, const models::Plan& plan, EngineOptions options,
               std::unique_ptr<speculate::DraftModel> draft_model)
    : executor_(std::move(executor)),
      options_(std::move(options)),
      vocab_(plan.vocab),
      depth_(static_cast<size_t>(std::max(1, executor_->caps().steps_in_flight))),
      drafting_{depth_ > 1 ? 0 : std::min(options_.max_draft_tokens, executor_->caps().max_draft_tokens),
                options_.prefill_chunk_tokens, options_.draft_cost_guess, options_.draft_use},
      unread_tokens_(options_.prefill_chunk_tokens * static_cast<int32_t>(depth_)),
      groups_(make_groups(plan, options_, executor_->caps().block_tokens)),
      prefix_(groups_, executor_->caps(), options_.prefix_cache),
      inbox_(std::make_shared<Inbox>(static_cast<size_t>(options_.max_seqs) +
                                     static_cast<size_t>(options_.max_queue))),
      builder_(executor_->caps().role_blind),
      masks_(plan.vocab, options_.mask_threads),
      speculator_(drafting_, std::move(draft_model)) {
  check_options(options_);
  const int32_t wanted =
      options_.context_length > 0 ? std::min(options_.context_length, plan.max_position) : plan.max_position;
  context_length_ = context_that_fits(groups_, wanted, unread_tokens_);
  for (int32_t slot = 0; slot < options_.max_seqs; ++slot) free_slots_.insert(slot);
  for (const cache::Group& group : groups_.list) {
    counters_.blocks_total += static_cast<uint64_t>(group.pool.total());
  }
  open_disk();
  thread_ = std::thread([this] { run(); });
}

Engine::~Engine() {
  Engine::stop();
}

std::vector<uint64_t> Engine::submit(Job job, std::vector<Member> members) {
  try {
    check_job(job, vocab_, context_length_);
    check_members(members.size(), options_.max_seqs);
  } catch (const Error&) {
    const std::lock_guard lock(counters_mutex_);
    ++counters_.refused;
    throw;
  }
  job.max_tokens = std::min(job.max_tokens, context_length_ - static_cast<int32_t>(job.prompt.size()));
  const std::vector<int32_t> prompt = std::move(job.prompt);
  Entry entry;
  for (Member& member : members) {
    auto sequence = std::make_unique<Sequence>();
    sequence->job = job;
    sequence->job.params.seed = member.seed;
    sequence->sink = std::move(member.sink);
    sequence->guide = std::move(member.guide);
    sequence->tokens = prompt;
    sequence->n_prompt = static_cast<int32_t>(prompt.size());
    sequence->submitted = Sequence::Clock::now();
    if (drafting_.max_draft_tokens > 0)
      sequence->track = speculate::Track(job.draft_use.value_or(drafting_.use), prompt);
    sequence->receipt.prompt_tokens = sequence->n_prompt;
    sequence->receipt.executor = executor_->caps().name;
    entry.push_back(std::move(sequence));
  }

  const std::lock_guard lock(counters_mutex_);
  if (stopping_) throw Error(Code::kUnavailable, "[engine.submit] expected a running engine; it is stopped");
  if (!lost_.empty()) throw Error(Code::kUnavailable, lost_);
  if (counters_.running + counters_.waiting + entry.size() > room()) {
    ++counters_.refused;
    throw Error(Code::kOverloaded, "[engine.submit] expected at most " + std::to_string(room()) +
                                       " jobs in the engine; got " + std::to_string(entry.size()) +
                                       " more than " + std::to_string(counters_.running + counters_.waiting));
  }
  std::vector<uint64_t> ids;
  for (const auto& sequence : entry) ids.push_back(sequence->id = next_id_++);
  for (const auto& sequence : entry) sequence->group = ids.front();
  counters_.submitted += entry.size();
  counters_.waiting += entry.size();
  inbox_->push_always({std::move(entry), 0, {}});
  return ids;
}

void Engine::cancel(uint64_t id) {
  if (id != 0) inbox_->push_always({{}, id, {}});
}

Counters Engine::counters() const {
  const std::lock_guard lock(counters_mutex_);
  return counters_;
}

bool Engine::is_full() const {
  const std::lock_guard lock(counters_mutex_);
  return counters_.running + counters_.waiting >= room();
}

void Engine::stop() {
  {
    const std::lock_guard lock(counters_mutex_);
    stopping_ = true;
  }
  inbox_->close();
  const std::lock_guard lock(stop_mutex_);
  if (thread_.joinable()) thread_.join();
}

void Engine::run() {
  while (take_commands()) {
    expire();
    while (launched_.size() < depth_ && launch_next()) {
    }
    is_idle_ = launched_.empty();
    if (!is_idle_) read_oldest();
    write_behind();
  }
  if (disk_) disk_->flush(Sequence::Clock::now() + kFlushWait);
}

/// Sleeps on the inbox while there is nothing to do, or nothing before blocks come from the disk. False after
/// stop, when nothing is left.
bool Engine::take_commands() {
  const bool waits_for_disk = is_idle_ && disk_ && disk_->n_fetches() > 0;
  const bool has_work = !waiting_.empty() || !running_.empty();
  if (!has_work || waits_for_disk) {
    std::optional<Command> command = inbox_->pop();
    if (!command && !has_work) return false;
    if (command) take(std::move(*command));
  }
  while (std::optional<Command> command = inbox_->try_pop()) take(std::move(*command));
  bool stopping = false;
  {
    const std::lock_guard lock(counters_mutex_);
    stopping = stopping_;
  }
  if (stopping) cancel_everything();
  return true;
}

void Engine::take(Command command) {
  if (!command.entry.empty()) {
    queue_.push(waiting_job(*command.entry.front(), command.entry.size()));
    const uint64_t id = command.entry.front()->id;
    waiting_.emplace(id, std::move(command.entry));
  } else if (command.cancel != 0) {
    end_where([id = command.cancel](const Sequence& s) { return s.id == id; }, Finish::kCancelled);
  } else if (command.call) {
    command.call();
  }
}

void Engine::expire() {
  const auto now = Sequence::Clock::now();
  end_where([now](const Sequence& s) { return s.job.deadline && *s.job.deadline <= now; }, Finish::kExpired);
}

void Engine::cancel_everything() {
  end_where([](const Sequence&) { return true; }, Finish::kCancelled);
}

/// Ends the sequences that `which` picks, waiting or running.
void Engine::end_where(const std::function<bool(const Sequence&)>& which, Finish why,
                       const std::string& error) {
  for (auto it = waiting_.begin(); it != waiting_.end();) {
    Entry& entry = it->second;
    const auto first =
        std::stable_partition(entry.begin(), entry.end(), [&](const auto& s) { return !which(*s); });
    Entry ended(std::make_move_iterator(first), std::make_move_iterator(entry.end()));
    entry.erase(first, entry.end());
    if (entry.empty()) {
      queue_.remove(it->first, false);
      it = waiting_.erase(it);
    } else {
      ++it;
    }
    for (const auto& sequence : ended) finish(*sequence, why, error);
  }
  for (const auto& sequence : running_) {
    if (!sequence->ended && which(*sequence)) finish(*sequence, why, error);
  }
  drop_settled();
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
  end_where([](const Sequence&) { return true; }, Finish::kFailed, error);
  if (options_.on_lost) options_.on_lost();
}

/// Frees what can be freed, counts, then tells the sink, in this order: who hears the end may rely on it.
void Engine::finish(Sequence& sequence, Finish why, const std::string& error) {
  const bool runs = sequence.slot >= 0;
  sequence.ended = true;
  Receipt& receipt = sequence.receipt;
  receipt.finish = why;
  receipt.error = error;
  const auto now = Sequence::Clock::now();
  if (sequence.started == Sequence::Clock::time_point())
    receipt.queue_ms = ms_between(sequence.submitted, now);
  if (sequence.draws_read > 0) receipt.decode_ms = ms_between(sequence.first_token, now);
  settle(sequence);
  {
    const std::lock_guard lock(counters_mutex_);
    --(runs ? counters_.running : counters_.waiting);
    if (why == Finish::kCancelled) ++counters_.cancelled;
    if (why == Finish::kExpired) ++counters_.expired;
    if (why == Finish::kFailed) ++counters_.failed;
    if (why == Finish::kStop || why == Finish::kLength) ++counters_.finished;
  }
  const std::shared_ptr<Sink> sink = std::move(sequence.sink);
  try {
    sink->on_finish(receipt);
  } catch (...) {
    base::log::error("a sink failed at the end of its job: {}", current_failure().text);
  }
}

/// Gives back slot and blocks of a sequence that leaves, once no step in flight writes to them.
void Engine::settle(Sequence& sequence) {
  if (!sequence.leaves() || sequence.in_flight > 0 || sequence.slot < 0) return;
  prefix_.end(sequence);
  speculator_.end(sequence.slot);
  free_slots_.insert(sequence.slot);
  sequence.slot = -1;
  count_blocks();
}

void Engine::drop_settled() {
  for (auto& sequence : running_) {
    if (sequence->slot < 0 && !sequence->ended) wait_again(std::move(sequence));
  }
  std::erase_if(running_, [](const auto& s) { return s == nullptr || (s->ended && s->slot < 0); });
}

/// A preempted sequence: ahead of those that have not started.
void Engine::wait_again(std::unique_ptr<Sequence> sequence) {
  sequence->preempted = false;
  queue_.push_back_again(waiting_job(*sequence, 1));
  {
    const std::lock_guard lock(counters_mutex_);
    --counters_.running;
    ++counters_.waiting;
  }
  const uint64_t id = sequence->id;
  waiting_[id].push_back(std::move(sequence));
}

void Engine::count_blocks() {
  uint64_t used = 0, kept = 0;
  for (const cache::Group& group : groups_.list) {
    used += static_cast<uint64_t>(group.pool.used());
    kept += static_cast<uint64_t>(group.pool.kept());
  }
  const cache::PrefixStats prefix = prefix_.stats();
  const std::lock_guard lock(counters_mutex_);
  counters_.blocks_used = used;
  counters_.blocks_kept = kept;
  counters_.prefix = prefix;
  if (disk_) counters_.blocks_restored = disk_->restored_blocks();
}

}  // namespace penstock::engine
