#include "cache/sequence_table.h"

#include <algorithm>

namespace penstock::cache {

std::vector<int32_t> Groups::blocks_needed(int32_t positions, int32_t step_tokens) const {
  std::vector<int32_t> needed;
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

void SequenceTable::open(Groups& groups) {
  close();
  groups_ = &groups;
  runs_.resize(groups.list.size());
}

void SequenceTable::adopt(std::span<const BlockRun> runs, std::vector<TableChange>& changes) {
  for (size_t g = 0; g < runs.size(); ++g) {
    runs_[g] = runs[g];
    for (size_t i = 0; i < runs[g].blocks.size(); ++i) {
      groups_->list[g].pool.retain(runs[g].blocks[i]);
      changes.push_back(
          {static_cast<int32_t>(g), runs[g].first + static_cast<int32_t>(i), runs[g].blocks[i]});
    }
  }
}

void SequenceTable::shrink(int32_t position, std::vector<TableChange>& changes) {
  for (size_t g = 0; g < runs_.size(); ++g) {
    BlockRun& run = runs_[g];
    Group& group = groups_->list[g];
    const int32_t first_seen = group.first_seen(position) / groups_->block_tokens;
    while (run.first < first_seen && !run.blocks.empty()) {
      group.pool.release(run.blocks.front());
      run.blocks.erase(run.blocks.begin());
      changes.push_back({static_cast<int32_t>(g), run.first++, -1});
    }
  }
}

void SequenceTable::grow(int32_t end, std::vector<TableChange>& changes) {
  for (size_t g = 0; g < runs_.size(); ++g) {
    BlockRun& run = runs_[g];
    const int32_t n = groups_->blocks(end);
    for (int32_t index = run.first + static_cast<int32_t>(run.blocks.size()); index < n; ++index) {
      run.blocks.push_back(groups_->list[g].pool.take());
      changes.push_back({static_cast<int32_t>(g), index, run.blocks.back()});
    }
  }
}

void SequenceTable::close() {
  for (size_t g = 0; g < runs_.size(); ++g) {
    const std::vector<int32_t>& blocks = runs_[g].blocks;
    for (size_t i = blocks.size(); i-- > 0;) groups_->list[g].pool.release(blocks[i]);
  }
  runs_.clear();
  groups_ = nullptr;
}

int32_t SequenceTable::missing(int32_t end) const {
  if (runs_.empty()) return 0;
  const auto held = static_cast<int32_t>(runs_[0].blocks.size());
  return std::max(0, groups_->blocks(end) - runs_[0].first - held);
}

int32_t SequenceTable::released_by(size_t group, int32_t position) const {
  const Group& g = groups_->list[group];
  const BlockRun& run = runs_[group];
  const int32_t n = std::min(g.first_seen(position) / groups_->block_tokens - run.first, held(group));
  int32_t released = 0;
  for (int32_t i = 0; i < n; ++i) released += g.pool.users(run.blocks[static_cast<size_t>(i)]) == 1;
  return released;
}

int32_t SequenceTable::own(size_t group) const {
  int32_t own = 0;
  for (const int32_t block : runs_[group].blocks) own += groups_->list[group].pool.users(block) == 1;
  return own;
}

int32_t SequenceTable::block(size_t group, int32_t index) const {
  const BlockRun& run = runs_[group];
  const int32_t at = index - run.first;
  return at < 0 || at >= held(group) ? -1 : run.blocks[static_cast<size_t>(at)];
}

}  // namespace penstock::cache
