// The engine's side of the disk cache: writes computed blocks behind, brings blocks back before a sequence
// starts or a session goes on. Decides when; files are tier's. Engine thread; the store calls back by `post`.
#pragma once

#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <unordered_set>

#include "cache/prefix_index.h"
#include "engine/generator.h"
#include "exec/executor.h"
#include "tier/disk_store.h"

namespace penstock::engine {

class DiskTier {
 public:
  /// Runs a call on the engine thread, soon; from any thread, also when the engine is gone.
  using Post = std::function<void(std::function<void()>)>;

  struct Place {
    cache::Groups& groups;
    cache::PrefixIndex& index;
    exec::Executor& executor;
  };

  /// `place` must outlive it. Throws Error(kUnsupported) where the executor cannot move blocks.
  DiskTier(Place place, std::shared_ptr<tier::DiskStore> store, tier::Fingerprint fingerprint, Post post);

  /// Whether the disk has blocks that make the beginning longer. If so they are brought, as far as blocks are
  /// available, and `on_done` is called.
  bool fetch(cache::Beginning beginning, std::function<void()> on_done);
  /// Fetches that are under way.
  size_t n_fetches() const { return fetches_.size(); }

  /// Hands at most `max_blocks` to the store, as long as it has room; comes again by `post` when it has.
  void write_behind(size_t max_blocks);
  /// Hands over all that is left, until then.
  void flush(std::chrono::steady_clock::time_point deadline);

  /// Writes what is computed of the beginning; once it is safe from a crash, gives back its memory where
  /// nobody else uses it, and calls with the tokens that are safe.
  void park(cache::Beginning beginning, std::function<void(int32_t)> on_done);

  /// Removes the blocks behind the first `keep_tokens` from the disk.
  void drop(const cache::Beginning& beginning, int32_t keep_tokens);

  /// Tokens of the beginning that are on the disk, from the first on.
  int32_t stored_tokens(const cache::Beginning& beginning) const;

  void clear() { store_->clear(); }
  const tier::Fingerprint& fingerprint() const { return fingerprint_; }
  tier::DiskStore& store() { return *store_; }

  uint64_t restored_blocks() const { return restored_; }

 private:
  struct KeyHash {
    size_t operator()(const cache::PrefixKey& key) const { return static_cast<size_t>(key.low); }
  };
  struct Fetch {
    cache::Beginning beginning;
    std::function<void()> on_done;
    std::vector<int32_t> room;  // [groups] blocks that it may take yet
    std::vector<cache::PrefixIndex::Missing> asked;
  };
  struct Park {
    std::vector<cache::PrefixKey> keys;
    std::function<void(int32_t)> on_done;
  };

  void entered(cache::PrefixKey key);
  bool write_next();
  void finish_parks();
  void parked(const Park& park, std::span<const cache::PrefixKey> safe);
  void read_on(std::list<Fetch>::iterator fetch);
  void arrived(std::list<Fetch>::iterator fetch, std::vector<tier::StoredBlock> blocks);
  bool restore(const tier::StoredBlock& block, uint64_t wanted, std::vector<int32_t>& room);
  std::vector<cache::PrefixIndex::Missing> missing(const cache::Beginning& beginning) const;

  const Place place_;
  const std::shared_ptr<tier::DiskStore> store_;
  const tier::Fingerprint fingerprint_;
  const Post post_;
  std::deque<cache::PrefixKey> dirty_;  // computed and not handed over
  std::unordered_set<cache::PrefixKey, KeyHash> is_dirty_;
  bool waits_for_room_ = false;
  std::list<Fetch> fetches_;
  std::list<Park> parks_;  // whose blocks are not all handed over
  uint64_t restored_ = 0;
};

}  // namespace penstock::engine
