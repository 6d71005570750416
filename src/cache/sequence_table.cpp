#include "cache/sequence_table.h"

#include <algorithm>
#include <string>

#include "base/error.h"

namespace penstock::cache {

std::vector<int32_t> Groups::blocks_needed(int32_t positions, int32_t step_tokens) const {
  std::vector<int32_t> needed;
  const auto blocks = [this](int32_t n) { return (n + block_tokens - 1) / block_tokens; };
  for (const Group& group : list) {
    const int32_t all = blocks(positions);
    // A step sees window - 1 positions before its first token; the span starts anywhere within a block.
    const int32_t span = group.window - 1 + step_tokens;
    const bool limited = group.window > 0 && span < positions;
    needed.push_back(limited ? std::min(all, blocks(span - 1) + 1) : all);
  }
  return needed;
}

SequenceTable::~SequenceTable() {
  close();
}

bool SequenceTable::open(Groups& groups, std::span<const int32_t> needed) {
  close();
  for (size_t g = 0; g < needed.size(); ++g) {
    if (groups.list[g].pool.reserve(needed[g])) continue;
    while (g-- > 0) groups.list[g].pool.unreserve(needed[g]);
    return false;
  }
  groups_ = &groups;
  held_.resize(needed.size());
  for (size_t g = 0; g < needed.size(); ++g) held_[g].reserved = needed[g];
  return true;
}

void SequenceTable::shrink(int32_t position, std::vector<TableChange>& changes) {
  for (size_t g = 0; g < held_.size(); ++g) {
    Held& held = held_[g];
    Group& group = groups_->list[g];
    if (group.window == 0) continue;
    const int32_t first_seen = std::max(0, position - group.window + 1) / groups_->block_tokens;
    while (held.first < first_seen && !held.blocks.empty()) {
      group.pool.release(held.blocks.front());
      held.blocks.erase(held.blocks.begin());
      changes.push_back({static_cast<int32_t>(g), held.first++, -1});
    }
  }
}

void SequenceTable::grow(int32_t end, std::vector<TableChange>& changes) {
  for (size_t g = 0; g < held_.size(); ++g) {
    Held& held = held_[g];
    const int32_t n = (end + groups_->block_tokens - 1) / groups_->block_tokens;
    for (int32_t index = held.first + static_cast<int32_t>(held.blocks.size()); index < n; ++index) {
      if (static_cast<int32_t>(held.blocks.size()) == held.reserved) {
        throw base::Error(base::Code::kInternal, "[cache.sequence_table] expected at most " +
                                                     std::to_string(held.reserved) +
                                                     " reserved blocks; got one more");
      }
      held.blocks.push_back(groups_->list[g].pool.take());
      changes.push_back({static_cast<int32_t>(g), index, held.blocks.back()});
    }
  }
}

void SequenceTable::close() {
  for (size_t g = 0; g < held_.size(); ++g) {
    BlockPool& pool = groups_->list[g].pool;
    for (const int32_t block : held_[g].blocks) pool.release(block);
    pool.unreserve(held_[g].reserved);
  }
  held_.clear();
  groups_ = nullptr;
}

}  // namespace penstock::cache
