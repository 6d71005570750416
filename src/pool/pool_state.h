// The models of a pool and the thread that loads and unloads them. ModelPool is its outside. Everything is
// under one mutex, which is never held while a model is loaded, unloaded or asked for something.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "engine/generator.h"
#include "pool/model.h"

namespace penstock::pool {

/// A model that may be loaded.
struct ModelSource {
  std::string id;
  std::vector<std::string> names;                      // that it answers to as well
  std::function<std::shared_ptr<const Model>()> load;  // on the loader thread; throws what is wrong
  uint64_t needs_bytes = 0;                            // of memory, as far as its files tell
};

struct PoolOptions {
  int32_t max_loaded = 0;                     // 0: as many as fit
  int64_t idle_ttl_ms = 0;                    // 0: never unloaded for idleness
  int64_t room_wait_ms = 60000;               // how long a load waits for others to become idle
  size_t max_waiting = 1024;                  // requests that wait for models
  std::function<uint64_t()> available_bytes;  // of memory; null: not looked at
  std::function<std::chrono::steady_clock::time_point()> now = std::chrono::steady_clock::now;
};

/// A model that stays loaded as long as this lives.
using Lease = std::shared_ptr<const Model>;
/// Null and why, or the lease and null.
using OnLease = std::function<void(Lease, std::exception_ptr)>;
/// Null, or why not.
using OnDone = std::function<void(std::exception_ptr)>;

/// What is known of a model of the pool. The facts are those of when it was loaded last.
struct ModelEntry {
  std::string id;
  std::vector<std::string> names;
  int64_t created = 0;  // unix seconds
  bool loaded = false, loading = false, pinned = false;
  uint64_t leases = 0;
  std::string family, format, executor, executor_detail;
  int32_t context_length = 0;  // tokens, 0: not known yet
  ModelMemory memory;
  bool has_template = false;
  bool embeds = false, scores_pairs = false;  // neither: it generates
};

/// Gauges too; PoolState::retired has counters only.
void add(engine::Counters& sum, const engine::Counters& c);

class PoolState : public std::enable_shared_from_this<PoolState> {
 public:
  enum class Phase : uint8_t { kUnloaded, kWanted, kLoading, kReady, kRetiring };
  using Time = std::chrono::steady_clock::time_point;

  struct Waiter {
    uint64_t ticket = 0;
    OnLease on_lease;
  };

  struct Slot {
    ModelSource source;
    ModelEntry facts;
    Phase phase = Phase::kUnloaded;
    std::shared_ptr<const Model> model;
    uint64_t leases = 0;
    bool pinned = false;
    Time last_used;     // while nobody holds a lease
    Time wanted_since;  // while kWanted
    std::vector<Waiter> waiters;
    std::vector<OnDone> unload_waiters;
  };

  PoolState(std::vector<ModelSource> sources, PoolOptions options);

  // Of the holder of the mutex:
  Slot& slot_locked(const std::string& id);
  Lease lease_locked(Slot& slot);
  uint64_t want_locked(Slot& slot, OnLease on_lease);  // a ticket
  /// Null when nobody waits with that ticket. What nobody waits for any more is not wanted.
  OnLease withdraw_locked(Slot& slot, uint64_t ticket);
  bool retire_for_memory_locked();

  void run();           // the loader thread
  void stop_loading();  // and joins it

  const PoolOptions options;
  mutable std::mutex mutex;
  std::condition_variable wake;
  std::vector<Slot> slots;  // their number never changes
  std::map<std::string, size_t> by_id;
  std::deque<size_t> wanted;  // slots in order of arrival
  size_t n_waiting = 0;
  uint64_t next_ticket = 1;
  engine::Counters retired;  // of models that were unloaded
  bool stopped = false;
  std::thread thread;

 private:
  void release(size_t slot);
  bool step(std::unique_lock<std::mutex>& lock);
  bool unload_one(std::unique_lock<std::mutex>& lock);
  bool retire_idle_locked();
  bool serve_wanted(std::unique_lock<std::mutex>& lock);
  void load(size_t index, std::unique_lock<std::mutex>& lock);
  bool has_room_locked(const Slot& slot) const;
  Slot* victim_locked();
  bool is_hopeless_locked(const Slot& slot) const;
  void fail(Slot& slot, std::exception_ptr why, std::unique_lock<std::mutex>& lock);
  std::chrono::milliseconds nap_locked() const;
  size_t n_loaded_locked() const;
};

}  // namespace penstock::pool
