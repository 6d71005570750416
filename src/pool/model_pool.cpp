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
std::vector<ModelSource> checked(std::vector<ModelSource> sources) {
  if (sources.empty())
    throw Error(Code::kInvalidRequest, "[pool.models] expected at least one model; got none");
  std::map<std::string_view, std::string_view> owners;
  const auto claim = [&](std::string_view name, std::string_view id) {
    if (!name.empty() && name != "default" && owners.emplace(name, id).second) return;
    throw Error(
        Code::kInvalidRequest,
        fmt::format("[pool.models] expected names of models that differ; got '{}' {}", name,
                    name.empty() || name == "default" ? "of " + std::string(id)
                                                      : fmt::format("of {} and of {}", owners[name], id)));
  };
  for (const ModelSource& source : sources) {
    claim(source.id, source.id);
    for (const std::string& name : source.names) claim(name, source.id);
  }
  return sources;
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

const std::string& ModelPool::id_of(std::string_view name) const {
  const auto& slots = state_->slots;  // names and ids never change
  if (name.empty() || name == "default") return slots.front().source.id;
  for (const auto& slot : slots) {
    if (slot.source.id == name) return slot.source.id;
    for (const std::string& other : slot.source.names) {
      if (other == name) return slot.source.id;
    }
  }
  std::string known;
  for (const auto& slot : slots) known += (known.empty() ? "'" : ", '") + slot.source.id + "'";
  throw Error(Code::kNotFound,
              "[pool.model] expected the model " + std::string(slots.size() > 1 ? "to be one of " : "") +
                  known + "; got '" + std::string(name) + "'",
              "model");
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
    if (slot.phase == Phase::kReady) slot.phase = Phase::kRetiring;
    if (slot.phase == Phase::kRetiring) {
      slot.unload_waiters.push_back(std::move(on_done));
      state_->wake.notify_all();
      return;
    }
  }
  on_done(nullptr);
}

void ModelPool::release() {
  const std::lock_guard lock(state_->mutex);
  for (auto& slot : state_->slots) {
    if (slot.phase == PoolState::Phase::kReady && !slot.pinned) slot.phase = PoolState::Phase::kRetiring;
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
    ModelEntry& entry = entries.emplace_back(slot.facts);
    entry.loaded = slot.model != nullptr;
    entry.loading = slot.phase == PoolState::Phase::kWanted || slot.phase == PoolState::Phase::kLoading;
    entry.pinned = slot.pinned;
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
  for (const auto& model : loaded()) add(sum, model->generator->counters());
  return sum;
}

bool ModelPool::is_full() const {
  const auto models = loaded();
  return models.size() == state_->slots.size() &&
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
