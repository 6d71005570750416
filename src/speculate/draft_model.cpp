#include "speculate/draft_model.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <iterator>

#include "base/error.h"
#include "base/log.h"

namespace penstock::speculate {
namespace {

constexpr int32_t kFailuresToOff = 3;
constexpr int32_t kGrid = 64;  // prompts are cut at multiples of it, as in the target

bool counts_matter(const ops::SampleParams& params) {
  return params.repetition_penalty != 1 || params.presence_penalty != 0 || params.frequency_penalty != 0;
}

}  // namespace

DraftModel::DraftModel(std::unique_ptr<exec::Executor> executor, const models::Plan& plan,
                       DraftModelOptions options)
    : executor_(std::move(executor)),
      options_(std::move(options)),
      vocab_(plan.vocab),
      slots_(static_cast<size_t>(options_.max_seqs)) {
  if (options_.n_blocks.size() != plan.kv_groups.size() || options_.max_batch_tokens < kGrid) {
    throw base::Error(base::Code::kInvalidRequest, "[speculate.draft_model] expected block counts of " +
                                                       std::to_string(plan.kv_groups.size()) +
                                                       " KV groups and steps of 64 tokens; got " +
                                                       std::to_string(options_.n_blocks.size()) + " and " +
                                                       std::to_string(options_.max_batch_tokens));
  }
  groups_.block_tokens = executor_->caps().block_tokens;
  for (size_t g = 0; g < options_.n_blocks.size(); ++g)
    groups_.list.push_back({plan.kv_groups[g].window, cache::BlockPool(options_.n_blocks[g])});
}

double DraftModel::ms_since(std::chrono::steady_clock::time_point start) const {
  return std::chrono::duration<double, std::milli>(options_.now() - start).count();
}

/// Positions whose keys are those of the sequence's tokens.
size_t DraftModel::seen(const Slot& slot, std::span<const int32_t> tokens) const {
  // The last token is always fed: its logits are wanted.
  const size_t n = std::min(slot.fed.size(), tokens.size() - 1);
  return static_cast<size_t>(
      std::mismatch(slot.fed.begin(), slot.fed.begin() + static_cast<std::ptrdiff_t>(n), tokens.begin())
          .first -
      slot.fed.begin());
}

int32_t DraftModel::unseen(uint64_t id, int32_t slot, std::span<const int32_t> tokens) const {
  const Slot& s = slots_[static_cast<size_t>(slot)];
  return static_cast<int32_t>(tokens.size() - (s.id == id ? seen(s, tokens) : 0));
}

bool DraftModel::can(uint64_t id, int32_t slot, size_t n_tokens) const {
  const Slot& s = slots_[static_cast<size_t>(slot)];
  return !off_ && !(s.id == id && s.failed) && n_tokens < static_cast<size_t>(options_.context_length);
}

void DraftModel::end(int32_t slot) {
  Slot& s = slots_[static_cast<size_t>(slot)];
  s.table.close();
  s.fed.clear();
  s.id = 0;
  s.is_new = true;
  s.failed = false;
}

/// The request's slot is its own from here on. False where it may not be used.
bool DraftModel::open(const Request& request) {
  Slot& slot = slots_[static_cast<size_t>(request.slot)];
  if (slot.id != request.id) {
    end(request.slot);
    slot.id = request.id;
    slot.table.open(groups_);
  }
  const bool in_vocab =
      std::ranges::all_of(request.tokens.subspan(std::min(slot.fed.size(), request.tokens.size())),
                          [this](int32_t token) { return token < vocab_; });
  slot.failed = slot.failed || !in_vocab;
  slot.fed.resize(seen(slot, request.tokens));
  return can(request.id, request.slot, request.tokens.size());
}

/// Blocks for the positions below `end`; false where there are not enough.
bool DraftModel::make_room(Slot& slot, int32_t slot_index, int32_t end) {
  const auto take_changes = [&] {
    for (const cache::TableChange& c : changes_) edits_.push_back({slot_index, c.group, c.index, c.block});
  };
  changes_.clear();
  slot.table.shrink(static_cast<int32_t>(slot.fed.size()), changes_);
  if (!slot.is_new) take_changes();
  const int32_t missing = slot.table.missing(end);
  if (std::ranges::any_of(groups_.list, [&](const auto& g) { return g.pool.available() < missing; }))
    return false;
  changes_.clear();
  slot.table.grow(end, changes_);
  if (!slot.is_new) take_changes();
  return true;
}

/// Tells the executor of the slot anew: what was drawn and what it holds.
void DraftModel::recount(const Request& request, Slot& slot) {
  const auto n_prompt = static_cast<size_t>(request.n_prompt);
  executor_->reset_slot(request.slot, request.tokens.first(n_prompt), request.tokens.subspan(n_prompt));
  slot.is_new = false;
  std::erase_if(edits_, [&](const exec::TableEdit& edit) { return edit.slot == request.slot; });
  const int32_t end = groups_.blocks(static_cast<int32_t>(request.tokens.size()) + request.n);
  for (size_t g = 0; g < groups_.list.size(); ++g) {
    for (int32_t index = 0; index < end; ++index) {
      const int32_t block = slot.table.block(g, index);
      if (block >= 0) edits_.push_back({request.slot, static_cast<int32_t>(g), index, block});
    }
  }
}

DraftModel::Work DraftModel::propose(std::span<Request> requests) {
  Work work;
  for (Request& request : requests) request.drafts->clear();
  const auto start = options_.now();
  std::vector<Feed> feeds = first_feeds(requests);
  auto role = exec::Role::kPrompt;
  while (!feeds.empty()) {
    for (const Feed& feed : feeds) work.fed += static_cast<int32_t>(feed.tokens.size());
    ++work.forwards;
    if (!forward(feeds, role)) break;
    role = exec::Role::kGenerated;  // from here on what it drew itself
    std::vector<Feed> next;
    for (const Feed& feed : feeds) {
      const std::vector<int32_t>& drafts = *feed.request->drafts;
      if (drafts.empty() || static_cast<int32_t>(drafts.size()) >= feed.request->n) continue;
      next.push_back({feed.request, {drafts.back()}, true});
    }
    feeds = std::move(next);
  }
  work.ms = ms_since(start);
  return work;
}

DraftModel::Work DraftModel::catch_up(std::span<Request> requests, int32_t most_tokens) {
  Work work;
  const auto start = options_.now();
  int32_t left = std::min(most_tokens, options_.max_batch_tokens);
  std::vector<Feed> feeds;
  for (Request& request : requests) {
    if (left < kGrid || !open(request)) continue;
    Slot& slot = slots_[static_cast<size_t>(request.slot)];
    const auto done = static_cast<int32_t>(slot.fed.size());
    const int32_t behind = static_cast<int32_t>(request.tokens.size()) - done;
    if (behind <= kFewTokens) continue;
    int32_t n = std::min(behind - 1, left);
    if (n < behind - 1) n = std::max(1, (done + n) / kGrid * kGrid - done);
    if (!make_room(slot, request.slot, done + n)) continue;
    const auto first = request.tokens.begin() + done;
    feeds.push_back({&request, {first, first + n}, false});
    left -= n;
    work.fed += n;
  }
  if (feeds.empty()) return work;
  work.forwards = 1;
  forward(feeds, exec::Role::kPrompt);
  work.ms = ms_since(start);
  return work;
}

std::vector<DraftModel::Feed> DraftModel::first_feeds(std::span<Request> requests) {
  std::vector<Feed> feeds;
  int32_t left = options_.max_batch_tokens;
  for (Request& request : requests) {
    if (!open(request)) continue;
    Slot& slot = slots_[static_cast<size_t>(request.slot)];
    const auto size = static_cast<int32_t>(request.tokens.size());
    const auto done = static_cast<int32_t>(slot.fed.size());
    request.n = std::min(request.n, options_.context_length - size);
    if (size - done > std::min(kFewTokens, left) || request.n < 1) continue;
    if (!make_room(slot, request.slot, size + request.n - 1)) continue;
    if (counts_matter(*request.params) && !slot.is_new) recount(request, slot);
    feeds.push_back({&request, {request.tokens.begin() + done, request.tokens.end()}, true});
    left -= size - done;
  }
  return feeds;
}

bool DraftModel::forward(const std::vector<Feed>& feeds, exec::Role role) {
  try {
    run(feeds, role);
    failures_in_a_row_ = 0;
    return true;
  } catch (const base::Error& error) {
    fail(feeds, error.what(), error.code() == base::Code::kUnavailable);
  } catch (const std::exception& error) {
    fail(feeds, error.what(), false);
  }
  return false;
}

void DraftModel::run(const std::vector<Feed>& feeds, exec::Role role) {
  std::vector<exec::Row> rows;
  std::vector<int32_t> tokens;
  std::vector<exec::SampleRow> samples;
  std::vector<ops::Bias> biases;
  for (const Feed& feed : feeds) {
    Slot& slot = slots_[static_cast<size_t>(feed.request->slot)];
    if (slot.is_new) recount(*feed.request, slot);
    rows.push_back({feed.request->slot, role, static_cast<int32_t>(tokens.size()),
                    static_cast<int32_t>(feed.tokens.size()), static_cast<int32_t>(slot.fed.size()),
                    feed.draws ? 1 : 0});
    tokens.insert(tokens.end(), feed.tokens.begin(), feed.tokens.end());
    if (!feed.draws) continue;
    exec::SampleRow sample;
    sample.logit_row = static_cast<int32_t>(samples.size());
    sample.params = *feed.request->params;
    sample.params.first_bias = static_cast<int32_t>(biases.size());
    std::ranges::copy_if(feed.request->biases, std::back_inserter(biases),
                         [this](const ops::Bias& bias) { return bias.token < vocab_; });
    sample.params.n_biases = static_cast<int32_t>(biases.size()) - sample.params.first_bias;
    samples.push_back(sample);
  }
  const exec::Ticket ticket = executor_->forward({rows, tokens, edits_, {}});
  edits_.clear();
  std::exception_ptr failure;
  try {
    if (!samples.empty()) executor_->sample(ticket, {samples, biases});
    take(feeds, executor_->wait(ticket));
  } catch (...) {
    failure = std::current_exception();
  }
  executor_->release(ticket);
  if (failure != nullptr) std::rethrow_exception(failure);
}

/// What a forward computed and drew.
void DraftModel::take(const std::vector<Feed>& feeds, const exec::StepOutput& output) {
  size_t draw = 0;
  for (const Feed& feed : feeds) {
    Slot& slot = slots_[static_cast<size_t>(feed.request->slot)];
    slot.fed.insert(slot.fed.end(), feed.tokens.begin(), feed.tokens.end());
    if (!feed.draws) continue;
    if (output.errors[draw] == exec::RowError::kNone) {
      feed.request->drafts->push_back(output.tokens[draw]);
    } else {
      feed.request->drafts->clear();
      slot.failed = true;
      ++failures_;
      base::log::warn("the draft model {} gave no finite logits; its sequence goes on without it",
                      options_.name);
    }
    ++draw;
  }
}

void DraftModel::fail(const std::vector<Feed>& feeds, const std::string& error, bool lost) {
  ++failures_;
  edits_.clear();
  for (const Feed& feed : feeds) {
    feed.request->drafts->clear();
    Slot& slot = slots_[static_cast<size_t>(feed.request->slot)];
    slot.table.close();
    slot.fed.clear();
    slot.failed = true;
  }
  off_ = lost || ++failures_in_a_row_ >= kFailuresToOff;
  base::log::warn("the draft model {} failed: {}; {}", options_.name, error,
                  off_ ? "it is off from here on" : "its sequences go on without it");
}

}  // namespace penstock::speculate
