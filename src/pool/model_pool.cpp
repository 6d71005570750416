#include "pool/model_pool.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/error.h"

namespace penstock::pool {

using base::Code;
using base::Error;

namespace {

/// A name that stands for two things is a slip that would show as the wrong answer.
class Names {
 public:
  void claim(const ModelSource& source) {
    claim(source.id, source.id);
    for (const std::string& name : source.names) claim(name, source.id);
  }
  void claim(std::string_view name, std::string_view id) {
    if (!name.empty() && name != "default" && owners_.emplace(name, id).second) return;
    throw Error(
        Code::kInvalidRequest,
        fmt::format("[pool.models] expected names of models that differ; got '{}' {}", name,
                    name.empty() || name == "default" ? "of " + std::string(id)
                                                      : fmt::format("of {} and of {}", owners_[name], id)));
  }

 private:
  std::map<std::string_view, std::string_view> owners_;
};

std::vector<ModelSource> checked(std::vector<ModelSource> sources) {
  if (sources.empty())
    throw Error(Code::kInvalidRequest, "[pool.models] expected at least one model; got none");
  Names names;
  for (const ModelSource& source : sources) names.claim(source);
  return sources;
}

Names names_locked(const PoolState& state) {
  Names names;
  for (const auto& slot : state.slots) {
    if (!slot.removed) names.claim(slot.source);
  }
  return names;
}

}  // namespace

ModelPool::ModelPool(std::vector<ModelSource> sources, PoolOptions options)
    : state_(std::make_shared<PoolState>(checked(std::move(sources)), std::move(options))) {
  // The thread does not keep the state: stop() joins it first.
  state_->thread = std::thread([state = state_.get()] { state->run(); });
}

ModelPool::~ModelPool() {
  stop();
}

std::string ModelPool::id_of(std::string_view name) const {
  const std::lock_guard lock(state_->mutex);
  std::string known;
  size_t n_known = 0;
  for (const auto& slot : state_->slots) {
    if (slot.removed) continue;
    const auto& names = slot.source.names;
    const bool is_it = slot.source.id == name || name.empty() || name == "default" ||
                       std::find(names.begin(), names.end(), name) != names.end();
    if (is_it) return slot.source.id;
    known += (known.empty() ? "'" : ", '") + slot.source.id + "'";
    ++n_known;
  }
  throw Error(Code::kNotFound,
              "[pool.model] expected the model " + std::string(n_known > 1 ? "to be one of " : "") +
                  (known.empty() ? "to be served" : known) + "; got '" + std::string(name) + "'",
              "model");
}

void ModelPool::add(ModelSource source) {
  const std::lock_guard lock(state_->mutex);
  names_locked(*state_).claim(source);
  state_->add_locked(std::move(source));
}

void ModelPool::add_name(const std::string& id, const std::string& name) {
  const std::lock_guard lock(state_->mutex);
  PoolState::Slot& slot = state_->slot_locked(id);
  names_locked(*state_).claim(name, id);
  slot.source.names.push_back(name);
}

void ModelPool::remove_name(const std::string& id, const std::string& name) {
  const std::lock_guard lock(state_->mutex);
  std::erase(state_->slot_locked(id).source.names, name);
}

void ModelPool::remove(const std::string& id) {
  using Phase = PoolState::Phase;
  const std::lock_guard lock(state_->mutex);
  PoolState::Slot& slot = state_->slot_locked(id);
  if (slot.phase == Phase::kWanted || slot.phase == Phase::kLoading) {
    throw Error(Code::kUnavailable, "[pool.remove] expected a model at rest; got one that is being loaded");
  }
  slot.removed = true;
  state_->by_id.erase(id);
  if (slot.phase == Phase::kReady) slot.phase = Phase::kRetiring;
  state_->wake.notify_all();
}

Lease ModelPool::try_lease(const std::string& id) {
  const std::lock_guard lock(state_->mutex);
  PoolState::Slot& slot = state_->slot_locked(id);
  if (slot.phase != PoolState::Phase::kReady || state_->stopped) return nullptr;
  return state_->lease_locked(slot);
}

uint64_t ModelPool::lease(const std::string& id, OnLease on_lease) {
  Lease lease;
  {
    const std::lock_guard lock(state_->mutex);
    PoolState::Slot& slot = state_->slot_locked(id);
    if (slot.phase != PoolState::Phase::kReady || state_->stopped) {
      return state_->want_locked(slot, std::move(on_lease));
    }
    lease = state_->lease_locked(slot);
  }
  on_lease(std::move(lease), nullptr);
  return 0;
}

bool ModelPool::withdraw(const std::string& id, uint64_t ticket) {
  OnLease withdrawn;  // destroyed outside the lock
  const std::lock_guard lock(state_->mutex);
  withdrawn = state_->withdraw_locked(state_->slot_locked(id), ticket);
  return withdrawn != nullptr;
}

void ModelPool::load(const std::string& id, std::optional<bool> pin, OnDone on_done) {
  const auto then = [state = state_.get(), id, pin, on_done = std::move(on_done)](Lease lease,
                                                                                  std::exception_ptr error) {
    if (lease != nullptr && pin) {
      const std::lock_guard lock(state->mutex);
      state->slot_locked(id).pinned = *pin;
      state->wake.notify_all();
    }
    lease.reset();
    on_done(error);
  };
  lease(id, then);
}

void ModelPool::unload(const std::string& id, OnDone on_done) {
  using Phase = PoolState::Phase;
  {
    const std::lock_guard lock(state_->mutex);
    PoolState::Slot& slot = state_->slot_locked(id);
    if (slot.phase == Phase::kWanted || slot.phase == Phase::kLoading || state_->stopped) {
      throw Error(Code::kUnavailable, "[pool.unload] expected a model at rest; got one that is being loaded");
    }
    slot.pinned = false;
    if (slot.keep == kForever) slot.keep.reset();
    if (slot.phase == Phase::kReady) slot.phase = Phase::kRetiring;
    if (slot.phase == Phase::kRetiring) {
      slot.unload_waiters.push_back(std::move(on_done));
      state_->wake.notify_all();
      return;
    }
  }
  on_done(nullptr);
}

void ModelPool::keep(const std::string& id, KeepLoaded keep) {
  const std::lock_guard lock(state_->mutex);
  state_->slot_locked(id).keep = keep;
  state_->wake.notify_all();
}

void ModelPool::release() {
  const std::lock_guard lock(state_->mutex);
  for (auto& slot : state_->slots) {
    if (slot.phase == PoolState::Phase::kReady && !state_->is_kept_locked(slot))
      slot.phase = PoolState::Phase::kRetiring;
  }
  state_->wake.notify_all();
}

bool ModelPool::release_one_idle() {
  const std::lock_guard lock(state_->mutex);
  return state_->retire_for_memory_locked();
}

std::vector<ModelEntry> ModelPool::list() const {
  const std::lock_guard lock(state_->mutex);
  std::vector<ModelEntry> entries;
  for (const auto& slot : state_->slots) {
    if (slot.removed) continue;
    ModelEntry& entry = entries.emplace_back(slot.facts);
    entry.names = slot.source.names;
    entry.loaded = slot.model != nullptr;
    entry.loading = slot.phase == PoolState::Phase::kWanted || slot.phase == PoolState::Phase::kLoading;
    entry.pinned = state_->is_kept_locked(slot);
    entry.expires_in = state_->expires_in_locked(slot);
    entry.leases = slot.leases;
  }
  return entries;
}

std::vector<std::shared_ptr<const Model>> ModelPool::loaded() const {
  const std::lock_guard lock(state_->mutex);
  std::vector<std::shared_ptr<const Model>> models;
  for (const auto& slot : state_->slots) {
    if (slot.model != nullptr) models.push_back(slot.model);
  }
  return models;
}

engine::Counters ModelPool::counters() const {
  engine::Counters sum;
  {
    const std::lock_guard lock(state_->mutex);
    sum = state_->retired;
  }
  for (const auto& model : loaded()) pool::add(sum, model->generator->counters());
  return sum;
}

bool ModelPool::is_full() const {
  const auto models = loaded();
  const auto offered = [this] {
    const std::lock_guard lock(state_->mutex);
    return std::count_if(state_->slots.begin(), state_->slots.end(),
                         [](const auto& slot) { return !slot.removed; });
  };
  return models.size() == static_cast<size_t>(offered()) &&
         std::all_of(models.begin(), models.end(),
                     [](const auto& model) { return model->generator->is_full(); });
}

void ModelPool::trim_caches() {
  for (const auto& model : loaded()) model->generator->trim_cache();
}

void ModelPool::clear_caches() {
  for (const auto& model : loaded()) model->generator->clear_cache();
}

void ModelPool::stop() {
  state_->stop_loading();
  for (const auto& model : loaded()) model->generator->stop();
}

}  // namespace penstock::pool
