// What clients ask of sessions: look, park, bring back, pin, delete. Thread-safe; answers come from other
// threads, perhaps before a call returns. The engine of a session's model does the work.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "base/error.h"
#include "engine/generator.h"
#include "pool/model_pool.h"
#include "serve/session_registry.h"

namespace penstock::serve {

/// A session and where its tokens stand.
struct SessionState {
  SessionRecord record;
  engine::CacheState cache;
};
using OnSession = std::function<void(std::variant<SessionState, base::Error>)>;

class Sessions {
 public:
  Sessions(std::shared_ptr<SessionRegistry> registry, std::shared_ptr<pool::ModelPool> models)
      : registry_(std::move(registry)), models_(std::move(models)) {}

  const std::shared_ptr<SessionRegistry>& registry() const { return registry_; }

  std::vector<SessionRecord> list() const { return registry_->list(); }

  // All throw Error(kNotFound) for an unknown id.
  void look(const std::string& id, OnSession on_session);
  /// Its blocks are given to the disk; on_session hears of it when they are safe from a crash. Throws
  /// Error(kUnsupported) where there is no disk cache.
  void park(const std::string& id, OnSession on_session);
  /// Its blocks are brought back to memory; its model is loaded first if need be.
  void resume(const std::string& id, OnSession on_session);
  /// Kept on the disk for so long from now; 0 lets go.
  void pin(const std::string& id, int64_t ttl_ms, OnSession on_session);
  /// Forgets it, and what only it had computed.
  void erase(const std::string& id, OnSession on_session);

  /// Its text, as its model reads it. Loads the model if need be.
  void context(const std::string& id, std::function<void(std::variant<std::string, base::Error>)> on_text);

 private:
  void ask(const pool::Model& model, const SessionRecord& record, engine::CacheWish::Kind kind,
           const OnSession& on_session);
  SessionState without_engine(const SessionRecord& record) const;
  pool::Lease loaded(const SessionRecord& record) const;
  void with_model(const std::string& id, std::function<void(const pool::Lease&)> use,
                  std::function<void(const base::Error&)> fail);

  const std::shared_ptr<SessionRegistry> registry_;
  const std::shared_ptr<pool::ModelPool> models_;
};

}  // namespace penstock::serve
