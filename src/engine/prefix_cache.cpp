#include "engine/prefix_cache.h"

#include <algorithm>

namespace penstock::engine {

PrefixCache::PrefixCache(cache::Groups& groups, const exec::Caps& caps, bool on)
    : groups_(groups), role_blind_(caps.role_blind), on_(on), index_(groups) {}

int32_t PrefixCache::shared_tokens(const Sequence& sequence) const {
  const int32_t known = std::min(sequence.computed, static_cast<int32_t>(sequence.tokens.size()));
  return role_blind_ ? known : std::min(known, sequence.n_prompt);
}

cache::PrefixMatch PrefixCache::find(const Sequence& sequence, bool tails) const {
  cache::PrefixMatch none;
  none.runs.resize(groups_.list.size());
  none.key = cache::salted_root(sequence.job.cache_salt);
  if (!uses(sequence)) return none;
  return index_.find(none.key, sequence.tokens, limit(sequence), tails && role_blind_);
}

std::vector<int32_t> PrefixCache::blocks_to_start(const Sequence& sequence, const cache::PrefixMatch& match,
                                                  int32_t unread_tokens) const {
  std::vector<int32_t> need = groups_.blocks_needed(sequence.tokens_to_fill() + 1, unread_tokens);
  for (size_t g = 0; g < need.size(); ++g) {
    const auto is_idle = [&](int32_t block) { return groups_.list[g].pool.users(block) == 0; };
    const auto idle = static_cast<int32_t>(std::ranges::count_if(match.runs[g].blocks, is_idle));
    // A window gives shared blocks back for own ones, so that they save nothing in the end.
    if (groups_.list[g].window == 0) need[g] -= static_cast<int32_t>(match.runs[g].blocks.size());
    need[g] += idle;
    if (match.tail_tokens > 0 && is_idle(match.tail[g])) ++need[g];
  }
  return need;
}

void PrefixCache::drop(const cache::Beginning& beginning, int32_t keep_tokens) {
  for (const cache::PrefixKey key : cache::block_keys(beginning, groups_.block_tokens, keep_tokens))
    index_.forget(key);
}

void PrefixCache::pin(const cache::PrefixMatch& match) {
  for (size_t g = 0; g < groups_.list.size(); ++g) {
    for (const int32_t block : match.runs[g].blocks) groups_.list[g].pool.retain(block);
    if (match.tail_tokens > 0) groups_.list[g].pool.retain(match.tail[g]);
  }
}

void PrefixCache::unpin(const cache::PrefixMatch& match) {
  for (size_t g = 0; g < groups_.list.size(); ++g) {
    cache::BlockPool& pool = groups_.list[g].pool;
    if (match.tail_tokens > 0) pool.release(match.tail[g]);
    for (const int32_t block : match.runs[g].blocks) pool.release(block);
  }
}

void PrefixCache::begin(Sequence& sequence, const cache::PrefixMatch& match) {
  if (uses(sequence)) index_.count(match, limit(sequence));
  sequence.table.open(groups_);
  sequence.table.adopt(match.runs, sequence.adopted);
  if (match.tail_tokens > 0) {
    for (size_t g = 0; g < match.tail.size(); ++g) groups_.list[g].pool.retain(match.tail[g]);
    sequence.table.grow(match.n_tokens, sequence.adopted);
    for (size_t g = 0; g < match.tail.size(); ++g) {
      sequence.copies.push_back(
          {static_cast<int32_t>(g), match.tail[g], sequence.table.block(g, match.n_blocks)});
    }
  }
  sequence.cursor = {match.key, match.n_blocks};
  sequence.fill = sequence.tokens_to_fill();
  sequence.filled = sequence.computed = match.n_tokens;
}

void PrefixCache::launched(Sequence& sequence) {
  sequence.is_new = false;
  sequence.adopted.clear();
  release_sources(sequence);
}

void PrefixCache::release_sources(Sequence& sequence) {
  for (const exec::BlockCopy& copy : sequence.copies) {
    groups_.list[static_cast<size_t>(copy.kv_group)].pool.release(copy.from);
  }
  sequence.copies.clear();
}

void PrefixCache::enter(Sequence& sequence) {
  if (uses(sequence)) index_.enter(sequence.cursor, sequence.tokens, shared_tokens(sequence), sequence.table);
}

void PrefixCache::end(Sequence& sequence) {
  if (uses(sequence) && !sequence.is_new) {
    enter(sequence);
    if (role_blind_)
      index_.enter_tail(sequence.cursor, sequence.tokens, shared_tokens(sequence), sequence.table);
  }
  release_sources(sequence);
  sequence.adopted.clear();
  sequence.table.close();
  sequence.is_new = true;
}

}  // namespace penstock::engine
