#include "engine/disk_tier.h"

#include <algorithm>

#include "base/error.h"
#include "base/log.h"

namespace penstock::engine {
namespace {

constexpr uint64_t kFetchBytes = uint64_t{64} << 20;  // on their way from the disk at once

}  // namespace

DiskTier::DiskTier(Place place, std::shared_ptr<tier::DiskStore> store, tier::Fingerprint fingerprint,
                   Post post)
    : place_(place), store_(std::move(store)), fingerprint_(std::move(fingerprint)), post_(std::move(post)) {
  if (const exec::Caps& caps = place_.executor.caps(); caps.block_format.empty()) {
    throw base::Error(base::Code::kUnsupported,
                      "[engine.disk_tier] expected an executor that moves blocks of its cache to the disk; "
                      "got " +
                          caps.name + ": leave --disk-cache-dir out");
  }
  place_.index.on_enter = [this](cache::PrefixKey key) { entered(key); };
}

void DiskTier::entered(cache::PrefixKey key) {
  if (is_dirty_.insert(key).second) dirty_.push_back(key);
}

void DiskTier::write_behind(size_t max_blocks) {
  for (size_t n = 0; n < max_blocks && !dirty_.empty() && store_->has_room(); ++n) {
    while (!dirty_.empty() && !write_next()) {
    }
  }
  if (!dirty_.empty() && !waits_for_room_) {
    waits_for_room_ = true;
    store_->when_room([this, post = post_] { post([this] { waits_for_room_ = false; }); });
  }
  finish_parks();
}

/// True when a block was copied; false when the first of the queue is no longer there or was written before.
bool DiskTier::write_next() {
  const cache::PrefixKey key = dirty_.front();
  dirty_.pop_front();
  is_dirty_.erase(key);
  const std::optional<cache::PrefixIndex::View> view = place_.index.view(key);
  if (!view) return false;
  if ((view->groups() & ~store_->groups({fingerprint_, key})) == 0) return false;
  tier::StoredBlock block{key, view->parent, {view->tokens.begin(), view->tokens.end()}, {}};
  for (size_t g = 0; g < view->blocks.size(); ++g) {
    const bool there = view->blocks[g] >= 0;
    block.groups.push_back(there ? place_.executor.read_block(static_cast<int32_t>(g), view->blocks[g])
                                 : std::vector<std::byte>());
  }
  store_->write(fingerprint_, std::move(block));
  return true;
}

void DiskTier::flush(std::chrono::steady_clock::time_point deadline) {
  while (!dirty_.empty() && store_->wait_for_room(deadline)) write_next();
  if (!dirty_.empty())
    base::log::warn("{} computed blocks were not written to the disk cache", dirty_.size());
}

std::vector<cache::PrefixIndex::Missing> DiskTier::missing(const cache::Beginning& beginning) const {
  return place_.index.missing(beginning, [this](cache::PrefixKey key) {
    return store_->groups({fingerprint_, key});
  });
}

bool DiskTier::fetch(cache::Beginning beginning, std::function<void()> on_done) {
  Fetch fetch{std::move(beginning), std::move(on_done), {}, {}};
  fetch.asked = missing(fetch.beginning);
  if (fetch.asked.empty()) return false;
  for (const cache::Group& group : place_.groups.list) fetch.room.push_back(group.pool.available());
  read_on(fetches_.insert(fetches_.end(), std::move(fetch)));
  return true;
}

void DiskTier::read_on(std::list<Fetch>::iterator fetch) {
  std::vector<cache::PrefixKey> keys;
  for (const auto& missing : fetch->asked) keys.push_back(missing.key);
  store_->read(fingerprint_, std::move(keys), kFetchBytes,
               [this, fetch, post = post_](std::vector<tier::StoredBlock> blocks) {
                 const auto shared = std::make_shared<std::vector<tier::StoredBlock>>(std::move(blocks));
                 post([this, fetch, shared] { arrived(fetch, std::move(*shared)); });
               });
}

void DiskTier::arrived(std::list<Fetch>::iterator fetch, std::vector<tier::StoredBlock> blocks) {
  bool has_room = true;
  for (size_t i = 0; i < blocks.size() && has_room; ++i) {
    has_room = restore(blocks[i], fetch->asked[i].groups, fetch->room);
  }
  const size_t before = fetch->asked.size();
  if (has_room) fetch->asked = missing(fetch->beginning);
  // A block that could not be read is not on the disk any more, and less is missing.
  const bool goes_on = has_room && !fetch->asked.empty() && (!blocks.empty() || fetch->asked.size() < before);
  if (goes_on) return read_on(fetch);
  const std::function<void()> on_done = std::move(fetch->on_done);
  fetches_.erase(fetch);
  on_done();
}

/// False where there is no room, or the block is not of this model after all.
bool DiskTier::restore(const tier::StoredBlock& block, uint64_t wanted, std::vector<int32_t>& room) {
  const size_t n_groups = place_.groups.list.size();
  if (block.groups.size() != n_groups) return false;
  for (size_t g = 0; g < n_groups; ++g) {
    if ((wanted >> g & 1) == 0 || block.groups[g].empty()) continue;
    if (place_.groups.list[g].pool.available() == 0 || room[g]-- <= 0) return false;
  }
  std::vector<int32_t> blocks(n_groups, -1);
  for (size_t g = 0; g < n_groups; ++g) {
    if ((wanted >> g & 1) == 0 || block.groups[g].empty()) continue;
    blocks[g] = place_.groups.list[g].pool.take();
    place_.executor.write_block(static_cast<int32_t>(g), blocks[g], block.groups[g]);
  }
  place_.index.restore(block.parent, block.tokens, blocks);
  for (size_t g = 0; g < n_groups; ++g) {
    if (blocks[g] >= 0) place_.groups.list[g].pool.release(blocks[g]);
  }
  ++restored_;
  return true;
}

int32_t DiskTier::stored_tokens(const cache::Beginning& beginning) const {
  const auto keys = cache::block_keys(beginning, place_.groups.block_tokens);
  return store_->count_first(fingerprint_, keys) * place_.groups.block_tokens;
}

void DiskTier::park(cache::Beginning beginning, std::function<void(int32_t)> on_done) {
  Park park{cache::block_keys(beginning, place_.groups.block_tokens), std::move(on_done)};
  for (auto it = park.keys.rbegin(); it != park.keys.rend(); ++it) {  // ahead of what nobody waits for
    if (is_dirty_.insert(*it).second) {
      dirty_.push_front(*it);
    }
  }
  parks_.push_back(std::move(park));
}

void DiskTier::finish_parks() {
  for (auto it = parks_.begin(); it != parks_.end();) {
    const bool waits =
        std::ranges::any_of(it->keys, [&](cache::PrefixKey key) { return is_dirty_.contains(key); });
    if (waits) {
      ++it;
      continue;
    }
    const auto park = std::make_shared<Park>(std::move(*it));
    it = parks_.erase(it);
    store_->sync(fingerprint_, park->keys, [this, park, post = post_](std::vector<cache::PrefixKey> safe) {
      post([this, park, safe = std::move(safe)] { parked(*park, safe); });
    });
  }
}

void DiskTier::parked(const Park& park, std::span<const cache::PrefixKey> safe) {
  for (const cache::PrefixKey key : safe) {
    const std::optional<cache::PrefixIndex::View> view = place_.index.view(key);
    if (!view) continue;
    bool idle = true;
    for (size_t g = 0; g < view->blocks.size(); ++g) {
      idle = idle && (view->blocks[g] < 0 || place_.groups.list[g].pool.users(view->blocks[g]) == 0);
    }
    if (idle) place_.index.forget(key);
  }
  const auto n = static_cast<int32_t>(std::ranges::mismatch(park.keys, safe).in1 - park.keys.begin());
  park.on_done(n * place_.groups.block_tokens);
}

void DiskTier::drop(const cache::Beginning& beginning, int32_t keep_tokens) {
  store_->erase(fingerprint_, cache::block_keys(beginning, place_.groups.block_tokens, keep_tokens));
}

}  // namespace penstock::engine
