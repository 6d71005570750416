#include "cache/prefix_index.h"

#include <algorithm>

#include "base/hash.h"

namespace penstock::cache {
namespace {

constexpr size_t kMaxTails = 64;  // entries compared for the front of a block, the newest

uint64_t mask_of(std::span<const int32_t> blocks) {
  uint64_t mask = 0;
  for (size_t g = 0; g < blocks.size(); ++g) mask |= uint64_t{blocks[g] >= 0} << g;
  return mask;
}

}  // namespace

PrefixKey extend(PrefixKey parent, std::span<const int32_t> tokens) {
  uint64_t high = base::splitmix64(parent.high ^ tokens.size());
  uint64_t low = base::splitmix64(parent.low + tokens.size());
  for (const int32_t token : tokens) {
    const auto id = static_cast<uint64_t>(static_cast<uint32_t>(token));
    high = base::splitmix64(high ^ id);
    low = base::splitmix64(low + (id << 32 | id));
  }
  return {high, low};
}

std::vector<PrefixKey> block_keys(const Beginning& beginning, int32_t block_tokens, int32_t keep_tokens) {
  std::vector<PrefixKey> keys;
  const std::span<const int32_t> tokens = beginning.tokens;
  const auto block = static_cast<size_t>(block_tokens);
  const size_t limit = std::min(tokens.size(), static_cast<size_t>(std::max(0, beginning.limit)));
  for (size_t at = 0; at + block <= limit; at += block) {
    keys.push_back(extend(keys.empty() ? beginning.root : keys.back(), tokens.subspan(at, block)));
  }
  const auto kept = std::min(keys.size(), static_cast<size_t>(keep_tokens / block_tokens));
  keys.erase(keys.begin(), keys.begin() + static_cast<std::ptrdiff_t>(kept));
  return keys;
}

PrefixIndex::PrefixIndex(Groups& groups) : groups_(groups), key_of_(groups.list.size()) {
  for (size_t g = 0; g < groups_.list.size(); ++g) {
    groups_.list[g].pool.on_evict = [this, g](int32_t block) { evicted(g, block); };
  }
}

const PrefixIndex::Entry* PrefixIndex::lookup(PrefixKey key, PrefixKey parent,
                                              std::span<const int32_t> tokens) const {
  const auto it = entries_.find(key);
  if (it == entries_.end()) return nullptr;
  const Entry& entry = it->second;
  return entry.parent == parent && std::ranges::equal(entry.tokens, tokens) ? &entry : nullptr;
}

/// The entries of whole blocks from the root on; keys: [entries + 1], the root first.
std::vector<const PrefixIndex::Entry*> PrefixIndex::chain(PrefixKey root, std::span<const int32_t> tokens,
                                                          std::vector<PrefixKey>& keys) const {
  std::vector<const Entry*> found;
  keys = {root};
  const auto block = static_cast<size_t>(groups_.block_tokens);
  for (size_t at = 0; at + block <= tokens.size(); at += block) {
    const auto own = tokens.subspan(at, block);
    const PrefixKey key = cache::extend(keys.back(), own);
    const Entry* entry = lookup(key, keys.back(), own);
    if (entry == nullptr) break;
    found.push_back(entry);
    keys.push_back(key);
  }
  return found;
}

/// The most of the first `n_blocks` behind which a token finds all that it sees, in every group.
int32_t PrefixIndex::longest(int32_t n_blocks, const There& there) const {
  for (int32_t before = n_blocks + 1; n_blocks < before;) {  // a cut for one group may cut another
    before = n_blocks;
    for (size_t g = 0; g < groups_.list.size(); ++g) {
      int32_t best = 0, run = 0;  // run: blocks there without a gap, up to the one looked at
      for (int32_t n = 1; n <= n_blocks; ++n) {
        run = there(n - 1, g) ? run + 1 : 0;
        const int32_t seen = n - groups_.list[g].first_seen(n * groups_.block_tokens) / groups_.block_tokens;
        if (run >= seen) best = n;
      }
      n_blocks = best;
    }
  }
  return n_blocks;
}

PrefixMatch PrefixIndex::find(PrefixKey root, std::span<const int32_t> tokens, int32_t max_tokens,
                              bool tails) const {
  const auto limit = std::min(tokens.size(), static_cast<size_t>(std::max(0, max_tokens)));
  std::vector<PrefixKey> keys;
  const std::vector<const Entry*> entries = chain(root, tokens.first(limit), keys);
  PrefixMatch match;
  match.n_blocks = longest(static_cast<int32_t>(entries.size()), [&](int32_t index, size_t group) {
    return entries[static_cast<size_t>(index)]->blocks[group] >= 0;
  });
  match.key = keys[static_cast<size_t>(match.n_blocks)];
  match.n_tokens = match.n_blocks * groups_.block_tokens;
  for (size_t g = 0; g < groups_.list.size(); ++g) {
    BlockRun run{groups_.list[g].first_seen(match.n_tokens) / groups_.block_tokens, {}};
    for (int32_t i = run.first; i < match.n_blocks; ++i) {
      run.blocks.push_back(entries[static_cast<size_t>(i)]->blocks[g]);
    }
    match.runs.push_back(std::move(run));
  }
  if (tails) {
    find_tail(match, tokens.first(limit).subspan(static_cast<size_t>(match.n_tokens)));
  }
  return match;
}

void PrefixIndex::count(const PrefixMatch& match, int32_t max_tokens) {
  ++stats_.lookups;
  stats_.tokens += static_cast<uint64_t>(max_tokens);
  if (match.n_tokens > 0) ++stats_.hits;
  stats_.tokens_found += static_cast<uint64_t>(match.n_tokens);
}

void PrefixIndex::find_tail(PrefixMatch& match, std::span<const int32_t> rest) const {
  const auto it = children_.find(match.key);
  if (it == children_.end()) return;
  const std::vector<PrefixKey>& children = it->second;
  const size_t n = std::min(children.size(), kMaxTails);
  for (size_t i = children.size(); i-- > children.size() - n;) {
    const Entry& entry = entries_.at(children[i]);
    if (std::ranges::any_of(entry.blocks, [](int32_t block) { return block < 0; })) continue;
    const auto ends = std::ranges::mismatch(entry.tokens, rest);
    const auto equal = static_cast<int32_t>(ends.in1 - entry.tokens.begin());
    if (equal <= match.tail_tokens) continue;
    match.tail_tokens = equal;
    match.tail = entry.blocks;
  }
  match.n_tokens += match.tail_tokens;
}

void PrefixIndex::enter(PrefixCursor& cursor, std::span<const int32_t> tokens, int32_t n_computed,
                        const SequenceTable& table) {
  const int32_t block = groups_.block_tokens;
  for (; (cursor.n_blocks + 1) * block <= n_computed; ++cursor.n_blocks) {
    const auto own = tokens.subspan(static_cast<size_t>(cursor.n_blocks * block), static_cast<size_t>(block));
    std::vector<int32_t> blocks;
    for (size_t g = 0; g < groups_.list.size(); ++g) blocks.push_back(table.block(g, cursor.n_blocks));
    put(cursor.key, own, std::move(blocks));
    cursor.key = cache::extend(cursor.key, own);
    if (on_enter) on_enter(cursor.key);
  }
}

void PrefixIndex::enter_tail(const PrefixCursor& cursor, std::span<const int32_t> tokens, int32_t n_computed,
                             const SequenceTable& table) {
  const int32_t first = cursor.n_blocks * groups_.block_tokens;
  if (n_computed <= first || n_computed - first >= groups_.block_tokens) return;
  std::vector<int32_t> blocks;
  for (size_t g = 0; g < groups_.list.size(); ++g) blocks.push_back(table.block(g, cursor.n_blocks));
  put(cursor.key, tokens.subspan(static_cast<size_t>(first), static_cast<size_t>(n_computed - first)),
      std::move(blocks));
}

void PrefixIndex::put(PrefixKey parent, std::span<const int32_t> tokens, std::vector<int32_t> blocks) {
  const PrefixKey key = cache::extend(parent, tokens);
  const auto [it, added] = entries_.try_emplace(key);
  Entry& entry = it->second;
  if (added) {
    entry = {parent, {tokens.begin(), tokens.end()}, std::vector<int32_t>(blocks.size(), -1)};
    children_[parent].push_back(key);
    ++stats_.inserted;
  } else if (entry.parent != parent || !std::ranges::equal(entry.tokens, tokens)) {
    return;
  }
  for (size_t g = 0; g < blocks.size(); ++g) {
    if (entry.blocks[g] >= 0 || blocks[g] < 0 || !key_of_[g].try_emplace(blocks[g], key).second) continue;
    entry.blocks[g] = blocks[g];
    groups_.list[g].pool.keep(blocks[g]);
  }
  if (std::ranges::all_of(entry.blocks, [](int32_t block) { return block < 0; })) erase(key);
}

void PrefixIndex::evicted(size_t group, int32_t block) {
  const PrefixKey key = key_of_[group].at(block);
  key_of_[group].erase(block);
  Entry& entry = entries_.at(key);
  entry.blocks[group] = -1;
  ++stats_.evicted;
  const bool is_empty = std::ranges::all_of(entry.blocks, [](int32_t b) { return b < 0; });
  if (groups_.list[group].window == 0 || is_empty) erase(key);
}

/// Also the blocks of other groups: without one of them the entry is of no use.
void PrefixIndex::erase(PrefixKey key) {
  const Entry& entry = entries_.at(key);
  for (size_t g = 0; g < entry.blocks.size(); ++g) {
    if (entry.blocks[g] < 0) continue;
    key_of_[g].erase(entry.blocks[g]);
    groups_.list[g].pool.forget(entry.blocks[g]);
  }
  std::vector<PrefixKey>& siblings = children_.at(entry.parent);
  std::erase(siblings, key);
  if (siblings.empty()) children_.erase(entry.parent);
  entries_.erase(key);
}

std::vector<PrefixIndex::Missing> PrefixIndex::missing(const Beginning& beginning,
                                                       const Stored& stored) const {
  struct Link {
    PrefixKey key;
    uint64_t here = 0, stored = 0;
  };
  std::vector<Link> links;
  const std::span<const int32_t> tokens = beginning.tokens;
  PrefixKey parent = beginning.root;
  for (const PrefixKey key : block_keys(beginning, groups_.block_tokens)) {
    const auto block = static_cast<size_t>(groups_.block_tokens);
    const auto own = tokens.subspan(links.size() * block, block);
    Link link{key, 0, 0};
    if (const Entry* entry = lookup(key, parent, own)) link.here = mask_of(entry->blocks);
    link.stored = stored(key) & ~link.here;
    if ((link.here | link.stored) == 0) break;
    links.push_back(link);
    parent = key;
  }
  const int32_t n = longest(static_cast<int32_t>(links.size()), [&](int32_t index, size_t group) {
    const Link& link = links[static_cast<size_t>(index)];
    return ((link.here | link.stored) >> group & 1) != 0;
  });
  uint64_t wanted = 0;  // groups that see the block looked at
  std::vector<Missing> found;
  for (int32_t i = 0; i < n; ++i) {
    for (size_t g = 0; g < groups_.list.size(); ++g) {
      wanted |= uint64_t{i >= groups_.list[g].first_seen(n * groups_.block_tokens) / groups_.block_tokens}
                << g;
    }
    const Link& link = links[static_cast<size_t>(i)];
    if ((link.stored & wanted) != 0) found.push_back({link.key, link.stored & wanted});
  }
  return found;
}

uint64_t PrefixIndex::View::groups() const {
  return mask_of(blocks);
}

std::optional<PrefixIndex::View> PrefixIndex::view(PrefixKey key) const {
  const auto it = entries_.find(key);
  if (it == entries_.end()) return std::nullopt;
  return View{it->second.parent, it->second.tokens, it->second.blocks};
}

void PrefixIndex::restore(PrefixKey parent, std::span<const int32_t> tokens, std::vector<int32_t> blocks) {
  put(parent, tokens, std::move(blocks));
}

void PrefixIndex::forget(PrefixKey key) {
  if (entries_.contains(key)) erase(key);
}

void PrefixIndex::clear() {
  while (!entries_.empty()) erase(PrefixKey(entries_.begin()->first));
}

PrefixStats PrefixIndex::stats() const {
  PrefixStats stats = stats_;
  stats.entries = entries_.size();
  return stats;
}

}  // namespace penstock::cache
