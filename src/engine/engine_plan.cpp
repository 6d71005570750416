// What the next step is made of: who may start with which blocks, what the running ones need, and what
// becomes of the scheduler's answer.
#include <algorithm>

#include "base/error.h"
#include "engine/engine.h"

namespace penstock::engine {
namespace {

Fill fill_of(const Sequence& sequence, int32_t tokens, int32_t done, bool role_blind) {
  return {tokens, done, role_blind ? 0 : sequence.n_prompt};
}

}  // namespace

/// Plans a step and makes room and way for it; planned_ holds the sequence of each row.
StepPlan Engine::plan_next() {
  begin_followers();
  propose_drafts();
  const bool role_blind = executor_->caps().role_blind;
  std::vector<Candidate> next = candidates();
  if (disk_) std::erase_if(next, [&](const Candidate& c) { return waits_for_disk(c); });
  std::vector<WaitingView> waiting;
  for (const Candidate& c : next) {
    const Entry& entry = waiting_.at(c.id);
    const Sequence& first = *entry.front();
    waiting.push_back({c.priority, static_cast<int32_t>(entry.size()), c.need,
                       fill_of(first, first.tokens_to_fill(), c.match.n_tokens, role_blind)});
  }
  std::vector<RunningBlocks> blocks;
  for (const auto& s : running_) blocks.push_back(blocks_of(*s));
  std::vector<RunningView> running;
  for (size_t i = 0; i < running_.size(); ++i) {
    const Sequence& s = *running_[i];
    const bool fills = !s.leaves() && !s.waits;
    running.push_back({s.priority, fills ? fill_of(s, s.fill, s.filled, role_blind) : Fill{}, s.may_decode(),
                       s.leaves(), s.in_flight > 0, blocks[i].need, blocks[i].own,
                       static_cast<int32_t>(s.drafts.size())});
  }
  Budgets budgets{
      options_.max_batch_tokens, options_.prefill_chunk_tokens, static_cast<int32_t>(free_slots_.size()), {}};
  for (const cache::Group& group : groups_.list) budgets.free_blocks.push_back(group.pool.available());
  StepPlan plan = plan_step(waiting, running, std::move(budgets));
  if (std::ranges::all_of(plan.rows, &PlannedRow::decode)) speculator_.catch_up();

  std::vector<Sequence*> sequences;
  for (const auto& s : running_) sequences.push_back(s.get());
  preempt(plan.preempted);
  admit(std::span(next).first(static_cast<size_t>(plan.n_admitted)), sequences);
  const auto is_generated = [&](const PlannedRow& row) {
    const Sequence& s = *sequences[static_cast<size_t>(row.sequence)];
    return row.decode || (!role_blind && s.filled >= s.n_prompt);
  };
  std::stable_partition(plan.rows.begin(), plan.rows.end(), is_generated);
  planned_.clear();
  for (const PlannedRow& row : plan.rows) planned_.push_back(sequences[static_cast<size_t>(row.sequence)]);
  drop_settled();
  return plan;
}

/// Members of a group begin when another one has computed their prompt, or when none is about to.
void Engine::begin_followers() {
  for (const auto& s : running_) {
    if (!s->waits || s->leaves()) continue;
    const bool leader = std::ranges::any_of(running_, [&](const auto& other) {
      return other->group == s->group && !other->waits && !other->leaves() && other->computed < s->n_prompt;
    });
    if (leader) continue;
    s->waits = false;
    prefix_.begin(*s, prefix_.find(*s, false));  // a copy would take a block that nobody kept for it
    s->receipt.cached_tokens = s->filled;
  }
}

/// What each sequence may draw next.
void Engine::propose_drafts() {
  if (drafting_.max_draft_tokens == 0) return;
  std::vector<speculate::Speculator::Candidate> candidates;
  for (const auto& s : running_) {
    s->drafts.clear();
    if (!s->may_decode()) continue;
    // The last draw needs no draft.
    const int32_t room = std::min(s->job.max_tokens - s->draws - 1, s->job.max_draft_tokens);
    candidates.push_back(
        {&s->track,
         {s->id, s->slot, s->tokens, s->n_prompt, &s->job.params, s->job.biases, room, &s->drafts}});
  }
  speculator_.propose(candidates);
  cut_refused_drafts();
}

/// What may not follow is not drawn either; a guide that fails says so again when its mask is computed.
void Engine::cut_refused_drafts() {
  for (const auto& s : running_) {
    if (s->guide == nullptr || s->drafts.empty()) continue;
    try {
      s->drafts.resize(s->guide->allowed(s->drafts));
    } catch (...) {
      s->drafts.clear();
    }
  }
}

/// The first of the queue, as long as there may be room for them.
std::vector<Engine::Candidate> Engine::candidates() const {
  std::vector<Candidate> found;
  std::vector<int32_t> left;
  for (const cache::Group& group : groups_.list) left.push_back(group.pool.available());
  const auto now = Sequence::Clock::now();
  for (const WaitingJob& job : queue_.first(std::max<size_t>(1, free_slots_.size()), now)) {
    found.push_back(candidate(job, aged(job, now)));
    bool fits = true;
    for (size_t g = 0; g < left.size(); ++g) fits = (left[g] -= found.back().need[g]) >= 0 && fits;
    if (!fits) break;
  }
  return found;
}

Engine::Candidate Engine::candidate(const WaitingJob& job, Priority priority) const {
  Candidate c{job.id, priority, {}, {}};
  const Entry& entry = waiting_.at(job.id);
  const Sequence& first = *entry.front();
  const auto followers = static_cast<int32_t>(entry.size()) - 1;
  const std::vector<int32_t> more = blocks_of_follower(first);
  for (const bool tails : {true, false}) {
    c.match = prefix_.find(first, tails);
    c.need = prefix_.blocks_to_start(first, c.match, unread_tokens_);
    bool fits = true;
    for (size_t g = 0; g < c.need.size(); ++g) {
      c.need[g] += followers * more[g];
      fits = fits && c.need[g] <= groups_.list[g].pool.total();
    }
    if (fits || c.match.tail_tokens == 0) break;
  }
  if (running_.empty()) {  // alone it starts, and its members one after the other if need be
    for (size_t g = 0; g < c.need.size(); ++g) {
      c.need[g] = std::min(c.need[g], groups_.list[g].pool.available());
    }
  }
  return c;
}

/// Blocks that a sequence needs to start beside another one of its group.
std::vector<int32_t> Engine::blocks_of_follower(const Sequence& sequence) const {
  std::vector<int32_t> need = groups_.blocks_needed(sequence.tokens_to_fill() + 1, unread_tokens_);
  if (!prefix_.uses(sequence)) return need;
  for (size_t g = 0; g < need.size(); ++g) {
    if (groups_.list[g].window == 0) need[g] -= (sequence.n_prompt - 1) / groups_.block_tokens;
  }
  return need;
}

Engine::RunningBlocks Engine::blocks_of(const Sequence& sequence) const {
  const size_t n = groups_.list.size();
  RunningBlocks blocks{std::vector<int32_t>(n), std::vector<int32_t>(n)};
  if (sequence.waits) {
    if (!sequence.leaves()) blocks.need = blocks_of_follower(sequence);
    return blocks;
  }
  for (size_t g = 0; g < n && sequence.slot >= 0; ++g) blocks.own[g] = sequence.table.own(g);
  if (sequence.leaves() || (sequence.is_filled() && !sequence.may_decode())) return blocks;
  const int32_t position = sequence.position();
  const int32_t end = sequence.is_filled()
                          ? position + 1 + static_cast<int32_t>(sequence.drafts.size())
                          : std::min(sequence.fill, position + options_.prefill_chunk_tokens);
  const std::vector<int32_t> whole = groups_.blocks_needed(sequence.fill + 1, unread_tokens_);
  for (size_t g = 0; g < n; ++g) {
    const int32_t next = sequence.table.missing(end) - sequence.table.released_by(g, sequence.computed);
    const int32_t until_filled = sequence.is_filled() ? 0 : whole[g] - sequence.table.held(g);
    blocks.need[g] = std::max({0, next, until_filled});
  }
  return blocks;
}

void Engine::preempt(std::span<const int32_t> indices) {
  if (indices.empty()) return;
  for (const int32_t index : indices) {
    Sequence& sequence = *running_[static_cast<size_t>(index)];
    sequence.preempted = true;
    ++sequence.receipt.preemptions;
    settle(sequence);
  }
  const std::lock_guard lock(counters_mutex_);
  counters_.preempted += indices.size();
}

/// Moves the jobs to the running ones; appends the first sequence of each to `leaders`.
void Engine::admit(std::span<const Candidate> admitted, std::vector<Sequence*>& leaders) {
  for (const Candidate& c : admitted) prefix_.pin(c.match);  // the first one's blocks must not cost another's
  for (const Candidate& c : admitted) {
    const auto it = waiting_.find(c.id);
    Entry entry = std::move(it->second);
    waiting_.erase(it);
    queue_.remove(c.id, true);
    start(entry, c);
    leaders.push_back(entry.front().get());
    for (auto& s : entry) running_.push_back(std::move(s));
    const std::lock_guard lock(counters_mutex_);
    counters_.waiting -= entry.size();
    counters_.running += entry.size();
  }
  for (const Candidate& c : admitted) prefix_.unpin(c.match);
}

void Engine::start(Entry& entry, const Candidate& candidate) {
  const auto now = Sequence::Clock::now();
  for (const auto& s : entry) {
    const bool is_first = s == entry.front();
    s->slot = *free_slots_.begin();
    free_slots_.erase(free_slots_.begin());
    s->priority = candidate.priority;
    s->waits = !is_first && prefix_.uses(*s);
    if (s->started == Sequence::Clock::time_point()) {
      s->started = now;
      s->receipt.queue_ms = ms_between(s->submitted, now);
    }
    if (s->waits) continue;
    prefix_.begin(*s, is_first ? candidate.match : prefix_.find(*s, false));
    if (s->draws_read == 0) s->receipt.cached_tokens = s->filled;
  }
}

}  // namespace penstock::engine
