// Several models in one server: loaded when a request names one, kept while anyone holds a lease, unloaded
// when room is needed, when they were idle for long, or when told. Thread-safe. One loader thread loads and
// unloads, so no request and no running model waits for a load but those that asked for it.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "pool/model.h"
#include "pool/pool_state.h"

namespace penstock::pool {

class ModelPool {
 public:
  /// The first source that is still offered is the model of requests that name none. Throws
  /// Error(kInvalidRequest) without a source, and for a name that is empty or stands for two.
  explicit ModelPool(std::vector<ModelSource> sources, PoolOptions options = {});
  ~ModelPool();  // stop()
  ModelPool(const ModelPool&) = delete;
  ModelPool& operator=(const ModelPool&) = delete;

  /// The id of the model that answers to `name`; "" and "default" are the first. Throws Error(kNotFound).
  std::string id_of(std::string_view name) const;

  /// Offers one more model. Throws as the constructor does.
  void add(ModelSource source);
  /// One more name of a model. Throws the same, and Error(kNotFound) for an id that is none.
  void add_name(const std::string& id, const std::string& name);
  void remove_name(const std::string& id, const std::string& name);
  /// Offers the model no more and unloads it when nobody uses it any longer. Throws Error(kUnavailable) while
  /// it is being loaded.
  void remove(const std::string& id);

  /// A lease of a model that is loaded, else null. `id` as id_of gave it, here and below.
  Lease try_lease(const std::string& id);

  /// Calls `on_lease` once: at once where the model is loaded, else on the loader thread, with the lease or
  /// with why there is none. Throws Error(kOverloaded) when too many wait, kUnavailable after stop(). The
  /// result is for withdraw().
  uint64_t lease(const std::string& id, OnLease on_lease);

  /// Ends the wait of a lease() that is not over: true, and its `on_lease` is never called. A model that
  /// nobody waits for any more is not loaded, unless that has begun.
  bool withdraw(const std::string& id, uint64_t ticket);

  /// Loads it and, where `pin` says so, keeps it from being unloaded for room or idleness, or lets go again.
  void load(const std::string& id, std::optional<bool> pin, OnDone on_done);

  /// Unloads it as soon as nobody holds a lease; requests that come meanwhile wait and load it again. Also
  /// unpins. Throws Error(kUnavailable) while it is being loaded.
  void unload(const std::string& id, OnDone on_done);

  /// How long it stays loaded when nobody uses it, from now on, in place of the pool's own idle time.
  void keep(const std::string& id, KeepLoaded keep);

  /// Unloads what is not pinned.
  void release();

  /// Unloads the one that was idle for longest, if it is neither pinned nor the last; false without such a
  /// one. Does not wait for it.
  bool release_one_idle();

  std::vector<ModelEntry> list() const;

  /// Of all models: those since the start of what was unloaded, too.
  engine::Counters counters() const;
  void clear_caches();
  void trim_caches();  // but for the disk's
  /// True while all models are loaded and none would take a job.
  bool is_full() const;

  /// Fails who waits, waits for a load that is under way, stops all engines. Idempotent.
  void stop();

 private:
  std::vector<std::shared_ptr<const Model>> loaded() const;

  const std::shared_ptr<PoolState> state_;  // leases outlive the pool
};

}  // namespace penstock::pool
