#include "serve/sessions.h"

#include "base/unix_time.h"
#include "text/detokenizer.h"

namespace penstock::serve {
namespace {

using base::Code;
using base::Error;
using engine::CacheState;
using Kind = engine::CacheWish::Kind;

Error stopped() {
  return {Code::kUnavailable, "[serve.sessions] expected a running model; got one that stops"};
}

Error as_error(const std::exception_ptr& why) {
  try {
    std::rethrow_exception(why);
  } catch (const Error& error) {
    return error;
  } catch (const std::exception& error) {
    return {Code::kInternal, std::string("[serve.sessions] expected the model to load; got ") + error.what()};
  }
}

}  // namespace

pool::Lease Sessions::loaded(const SessionRecord& record) const {
  try {
    return models_->try_lease(models_->id_of(record.model));
  } catch (const Error&) {
    return nullptr;  // a server with other models than the one that knew the session
  }
}

/// Of a model that is not loaded nothing is in memory.
SessionState Sessions::without_engine(const SessionRecord& record) const {
  SessionState state{record, {}};
  if (const auto& disk = registry_->disk()) {
    state.cache.disk_tokens = disk->count_first(record.fingerprint, keys_of(record)) * record.block_tokens;
  }
  return state;
}

void Sessions::ask(const pool::Model& model, const SessionRecord& record, Kind kind,
                   const OnSession& on_session) {
  const int32_t keep = kind == Kind::kDrop ? registry_->shared_tokens(record) : 0;
  model.generator->cache({kind, record.tokens, record.salt, keep},
                         [record, on_session](std::optional<CacheState> state) {
                           if (!state) return on_session(stopped());
                           on_session(SessionState{record, *state});
                         });
}

void Sessions::look(const std::string& id, OnSession on_session) {
  const SessionRecord record = registry_->find(id);
  if (const pool::Lease model = loaded(record)) return ask(*model, record, Kind::kLook, on_session);
  on_session(without_engine(record));
}

void Sessions::park(const std::string& id, OnSession on_session) {
  const SessionRecord record = registry_->find(id);
  // Not an owner: the disk's thread must not be the last to let go of the disk.
  const auto parked = [known = std::weak_ptr(registry_), id,
                       on_session](std::variant<SessionState, Error> state) {
    try {
      const auto registry = known.lock();
      if (auto* found = std::get_if<SessionState>(&state); found != nullptr && registry != nullptr) {
        registry->set_parked(id, true);
        found->record.parked = true;
      }
    } catch (const Error& error) {
      return on_session(error);
    }
    on_session(std::move(state));
  };
  if (const pool::Lease model = loaded(record)) return ask(*model, record, Kind::kPark, parked);
  if (registry_->disk() == nullptr) {
    throw Error(
        Code::kUnsupported,
        "[serve.sessions] expected a disk cache to park on; there is none: start with --disk-cache-dir");
  }
  registry_->disk()->sync(record.fingerprint, keys_of(record),
                          [state = without_engine(record), parked](const auto&) { parked(state); });
}

void Sessions::resume(const std::string& id, OnSession on_session) {
  with_model(
      id,
      [this, id, on_session](const pool::Lease& model) {
        if (registry_->find(id).parked) registry_->set_parked(id, false);
        ask(*model, registry_->find(id), Kind::kFetch, on_session);
      },
      on_session);
}

void Sessions::pin(const std::string& id, int64_t ttl_ms, OnSession on_session) {
  registry_->pin(id, ttl_ms == 0 ? 0 : base::unix_ms() + ttl_ms);
  look(id, std::move(on_session));
}

void Sessions::erase(const std::string& id, OnSession on_session) {
  const SessionRecord record = registry_->find(id);
  if (record.pinned_until_ms != 0) registry_->pin(id, 0);
  registry_->erase(id);
  if (const pool::Lease model = loaded(record)) return ask(*model, record, Kind::kDrop, on_session);
  if (const auto& disk = registry_->disk()) {
    disk->erase(record.fingerprint, keys_of(record, registry_->shared_tokens(record)));
  }
  on_session(SessionState{record, {}});
}

void Sessions::context(const std::string& id, std::function<void(std::variant<std::string, Error>)> on_text) {
  with_model(
      id,
      [this, id, on_text](const pool::Lease& model) {
        text::Detokenizer detokenizer(*model->codec, {.skip_special = false});
        std::string text;
        for (const int32_t token : registry_->find(id).tokens) text += detokenizer.push(token);
        on_text(text + std::string(detokenizer.finish()));
      },
      on_text);
}

void Sessions::with_model(const std::string& id, std::function<void(const pool::Lease&)> use,
                          std::function<void(const Error&)> fail) {
  const std::string model = models_->id_of(registry_->find(id).model);
  const auto with = [use = std::move(use), fail](const pool::Lease& lease) {
    try {
      use(lease);
    } catch (const Error& error) {
      fail(error);
    }
  };
  if (const pool::Lease lease = models_->try_lease(model)) return with(lease);
  models_->lease(model, [with, fail](pool::Lease lease, const std::exception_ptr& why) {
    if (why != nullptr) return fail(as_error(why));
    with(lease);
  });
}

}  // namespace penstock::serve
