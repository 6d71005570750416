#include "exec/logits_runner.h"

#include <algorithm>

namespace penstock::exec {

LogitsRunner::LogitsRunner(Executor& executor, const models::Plan& plan, Limits limits)
    : executor_(executor), plan_(plan), limits_(std::move(limits)) {}

std::vector<int32_t> LogitsRunner::blocks_for(const Executor& executor, const models::Plan& plan,
                                              const Limits& limits) {
  const int32_t per_slot = limits.max_context / executor.caps().block_tokens + 1;
  return std::vector<int32_t>(plan.kv_groups.size(), per_slot * limits.max_slots);
}

void LogitsRunner::cover(int32_t slot, size_t end, std::vector<TableEdit>& edits) {
  size_t& covered = covered_[static_cast<size_t>(slot)];
  for (; covered * static_cast<size_t>(executor_.caps().block_tokens) < end; ++covered) {
    const int32_t block = free_blocks_.back();
    free_blocks_.pop_back();
    for (size_t group = 0; group < plan_.kv_groups.size(); ++group) {
      edits.push_back({slot, static_cast<int32_t>(group), static_cast<int32_t>(covered), block});
    }
  }
}

void LogitsRunner::step(const std::vector<Feed>& feeds, std::vector<Cursor>& cursors,
                        std::vector<std::vector<float>>& logits) {
  std::vector<Row> rows;
  std::vector<int32_t> tokens;
  std::vector<TableEdit> edits;
  const auto add = [&](size_t i, Role role) {
    const Feed& feed = feeds[i];
    Cursor& cursor = cursors[i];
    if (cursor.done == feed.tokens.size()) return;
    const bool generated = static_cast<int32_t>(cursor.done) >= feed.generated_from;
    if (generated != (role == Role::kGenerated)) return;
    const auto cut = static_cast<size_t>(feed.cuts[std::min(cursor.step, feed.cuts.size() - 1)]);
    // A row has one role.
    const size_t end = generated ? feed.tokens.size()
                                 : std::min(feed.tokens.size(), static_cast<size_t>(feed.generated_from));
    const size_t n = std::min(cut, end - cursor.done);
    cover(static_cast<int32_t>(i), cursor.done + n, edits);
    rows.push_back({static_cast<int32_t>(i), role, static_cast<int32_t>(tokens.size()),
                    static_cast<int32_t>(n), static_cast<int32_t>(cursor.done), static_cast<int32_t>(n)});
    const auto first = feed.tokens.begin() + static_cast<long>(cursor.done);
    tokens.insert(tokens.end(), first, first + static_cast<long>(n));
  };
  for (const auto role : {Role::kGenerated, Role::kPrompt}) {
    for (size_t i = 0; i < feeds.size(); ++i) add(i, role);
  }
  std::vector<SampleRow> samples(tokens.size());
  for (size_t i = 0; i < samples.size(); ++i) {
    samples[i].logit_row = static_cast<int32_t>(i);
    samples[i].host_logits = true;
  }
  const Ticket ticket = executor_.forward({rows, tokens, edits});
  executor_.sample(ticket, {samples, {}});
  const auto out = executor_.wait(ticket).logits;
  size_t at = 0;
  for (const Row& row : rows) {
    const auto count = static_cast<size_t>(row.n_tokens) * static_cast<size_t>(plan_.vocab);
    auto& own = logits[static_cast<size_t>(row.slot)];
    own.insert(own.end(), out.begin() + static_cast<long>(at), out.begin() + static_cast<long>(at + count));
    at += count;
    cursors[static_cast<size_t>(row.slot)].done += static_cast<size_t>(row.n_tokens);
    cursors[static_cast<size_t>(row.slot)].step += 1;
  }
  executor_.release(ticket);
}

std::vector<std::vector<float>> LogitsRunner::run(const std::vector<Feed>& feeds) {
  // Blocks are handed out in a scrambled order: nothing may rest on neighbours in memory.
  free_blocks_.clear();
  for (int32_t i = 0; i < limits_.n_blocks.front(); ++i)
    free_blocks_.insert(free_blocks_.begin() + (i % 2 == 0 ? 0 : i / 2), i);
  covered_.assign(feeds.size(), 0);
  for (size_t i = 0; i < feeds.size(); ++i) executor_.reset_slot(static_cast<int32_t>(i), {}, {});
  std::vector<Cursor> cursors(feeds.size());
  std::vector<std::vector<float>> logits(feeds.size());
  const auto unfinished = [&] {
    for (size_t i = 0; i < feeds.size(); ++i) {
      if (cursors[i].done < feeds[i].tokens.size()) return true;
    }
    return false;
  };
  while (unfinished()) step(feeds, cursors, logits);
  return logits;
}

}  // namespace penstock::exec
