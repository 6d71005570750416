// What the API surfaces know of serving: models, submit, cancel, counters, lifecycle. Thread-safe; owns the
// worker and stream threads. The models are a pool's.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "chat/event.h"
#include "chat/request.h"
#include "engine/generator.h"
#include "pool/model_pool.h"
#include "pool/profiles.h"
#include "serve/counters.h"
#include "serve/encoding.h"
#include "serve/generation.h"
#include "serve/lifecycle.h"
#include "serve/memory_watch.h"
#include "serve/sessions.h"

namespace penstock::serve {

struct ServiceOptions {
  int prepare_threads = 1;
  size_t max_preparing = 1024;  // requests that wait for a worker; one more is refused as overloaded
  int stream_threads = 1;
  int64_t request_timeout_ms = 0;  // of requests that do not say; 0: none
  pool::Profiles profiles;
  std::shared_ptr<pool::MemoryGuard> memory;  // watched; null: nothing is
  std::shared_ptr<tier::DiskStore> disk;      // that the models have too; null: none
};

/// What is said of a model on every surface.
using ModelCard = pool::ModelEntry;

class Service {
 public:
  explicit Service(std::shared_ptr<pool::ModelPool> models, ServiceOptions options = {});

  /// Serves a model that is loaded, and this one only.
  explicit Service(std::shared_ptr<const pool::Model> model, ServiceOptions options = {});
  ~Service();  // stop()
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;

  /// Starts a request; its events come to `sink` from other threads, perhaps before this returns. Keep the
  /// result to cancel it. Throws Error(kNotFound) for an unknown model or profile, Error(kInvalidRequest) or
  /// Error(kUnsupported) for what can be seen at once, Error(kOverloaded), Error(kUnavailable) while memory
  /// is short, Error(kUnavailable) while draining; nothing comes to `sink` then.
  std::shared_ptr<Generation> submit(chat::Request request, std::shared_ptr<chat::EventSink> sink);

  /// The same for vectors or scores; throws as well what serve::check of texts.h says of a model that is
  /// loaded.
  std::shared_ptr<Encoding> encode(chat::EncodeRequest request, OnAnswer on_answer);

  /// Throws Error(kOverloaded) or Error(kUnavailable) while submit() would refuse any request, which is
  /// counted as refused: before it costs anything to read it.
  void require_room(const chat::Origin& origin);

  std::vector<ModelCard> models() const { return pool_->list(); }
  pool::ModelPool& pool() { return *pool_; }
  const pool::Profiles& profiles() const { return profiles_; }

  /// The model that answers to `name`, or to what stands before its ":profile"; "" and "default" are the
  /// first. Throws Error(kNotFound).
  ModelCard model(std::string_view name) const;

  Counters counters() const { return shared_->tally.values(); }
  const Telemetry& telemetry() const { return shared_->telemetry; }
  static uint64_t models_loaded() { return pool::n_models_loaded; }
  Sessions& sessions() { return sessions_; }
  /// Of the disk cache; nothing where there is none.
  std::optional<tier::DiskStats> disk_stats() const;
  /// What was computed for ended requests is forgotten, on the disk too but for what is pinned.
  void clear_cache() { pool_->clear_caches(); }

  engine::Counters engine_counters() const { return pool_->counters(); }

  /// Ends the request with this id with an error for its client. False when none of that id runs.
  bool cancel(const std::string& id);

  /// Whether requests are taken; submit() throws Error(kUnavailable) while not. What runs goes on.
  Lifecycle& lifecycle() { return lifecycle_; }
  State state() const { return lifecycle_.state(); }
  const MemoryWatch& memory() const { return memory_; }

  /// When a request that is refused now may come again: 1 to 60 seconds.
  int retry_after_seconds() const;

  /// Waits until nothing runs; false after `timeout_ms`.
  bool wait_idle(int64_t timeout_ms) const;

  /// Fails what runs, ends the threads. Idempotent; not from a sink.
  void stop();

 private:
  struct Named {
    std::string id;
    const pool::GenerationDefaults* profile = nullptr;
  };
  void count_refused(std::string id, chat::Origin origin, base::Code code);
  Named resolve(std::string_view name) const;
  void start(const std::shared_ptr<RequestWork>& work, const std::string& model);
  /// What `begin` returns; a request that it throws on is counted as refused.
  template <class Begin>
  auto counted(const std::string& id, const chat::Origin& origin, const Begin& begin);
  void require_running() const;

  const int64_t request_timeout_ms_;
  const pool::Profiles profiles_;
  const std::shared_ptr<pool::ModelPool> pool_;
  std::shared_ptr<Shared> shared_;
  Sessions sessions_;
  Lifecycle lifecycle_;
  MemoryWatch memory_;
};

}  // namespace penstock::serve
