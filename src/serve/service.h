// What the API surfaces know of serving: models, submit, cancel, counters, lifecycle. Thread-safe; owns the
// worker and stream threads. Holds one model.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "chat/event.h"
#include "chat/request.h"
#include "engine/generator.h"
#include "pool/model.h"
#include "serve/counters.h"
#include "serve/generation.h"
#include "serve/lifecycle.h"

namespace penstock::serve {

struct ServiceOptions {
  int prepare_threads = 1;
  size_t max_preparing = 1024;  // requests that wait for a worker; one more is refused as overloaded
  int stream_threads = 1;
  int64_t request_timeout_ms = 0;  // of requests that do not say; 0: none
};

/// What is said of a model on every surface.
struct ModelCard {
  std::string id;
  std::vector<std::string> names;
  int64_t created = 0;  // unix seconds
  std::string family, format, executor, executor_detail;
  int32_t context_length = 0;  // tokens
  bool has_template = false;
};

class Service {
 public:
  explicit Service(std::shared_ptr<const pool::Model> model, ServiceOptions options = {});
  ~Service();  // stop()
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;

  /// Starts a request; its events come to `sink` from other threads, perhaps before this returns. Keep the
  /// result to cancel it. Throws Error(kNotFound) for an unknown model, Error(kInvalidRequest) or
  /// Error(kUnsupported) for what can be seen at once, Error(kOverloaded), Error(kUnavailable) while
  /// draining; nothing comes to `sink` then.
  std::shared_ptr<Generation> submit(chat::Request request, std::shared_ptr<chat::EventSink> sink);

  std::vector<ModelCard> models() const;

  /// The model that answers to `name`; "" and "default" are the one that is served. Throws Error(kNotFound).
  ModelCard model(std::string_view name) const;

  Counters counters() const { return shared_->tally.values(); }
  static uint64_t models_loaded() { return pool::n_models_loaded; }
  /// What was computed for ended requests is forgotten.
  void clear_cache() { shared_->model->generator->clear_cache(); }

  engine::Counters engine_counters() const { return shared_->model->generator->counters(); }

  /// Ends the request with this id with an error for its client. False when none of that id runs.
  bool cancel(const std::string& id);

  /// Whether requests are taken; submit() throws Error(kUnavailable) while not. What runs goes on.
  Lifecycle& lifecycle() { return lifecycle_; }
  State state() const { return lifecycle_.state(); }

  /// When a request that is refused now may come again: 1 to 60 seconds.
  int retry_after_seconds() const;

  /// Waits until nothing runs; false after `timeout_ms`.
  bool wait_idle(int64_t timeout_ms) const;

  /// Fails what runs, ends the threads. Idempotent; not from a sink.
  void stop();

 private:
  bool answers_to(std::string_view name) const;

  const int64_t request_timeout_ms_;
  std::shared_ptr<Shared> shared_;
  Lifecycle lifecycle_;
};

}  // namespace penstock::serve
