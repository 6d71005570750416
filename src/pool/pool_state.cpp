#include "pool/pool_state.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/error.h"
#include "base/log.h"
#include "base/unix_time.h"
#include "pool/memory_guard.h"

namespace penstock::pool {
namespace {

using base::Code;
using base::Error;
using std::chrono::milliseconds;

// While something depends on the clock or on the machine's free memory.
constexpr milliseconds kNap{100};

std::exception_ptr pointer_to(Error error) {
  return std::make_exception_ptr(std::move(error));
}

// A counter that is new belongs in one of the two sums below.
static_assert(sizeof(engine::Counters) ==
              18 * sizeof(uint64_t) + sizeof(cache::PrefixStats) + sizeof(engine::Counters::drafts));

void add_counted(engine::Counters& sum, const engine::Counters& c) {
  sum.submitted += c.submitted;
  sum.finished += c.finished;
  sum.cancelled += c.cancelled;
  sum.expired += c.expired;
  sum.failed += c.failed;
  sum.refused += c.refused;
  sum.preempted += c.preempted;
  sum.prompt_tokens += c.prompt_tokens;
  sum.completion_tokens += c.completion_tokens;
  sum.steps += c.steps;
  for (size_t i = 0; i < sum.drafts.size(); ++i) sum.drafts[i].add(c.drafts[i]);
  sum.draft_model_failures += c.draft_model_failures;
  sum.max_batch_width = std::max(sum.max_batch_width, c.max_batch_width);
  sum.prefix.lookups += c.prefix.lookups;
  sum.prefix.hits += c.prefix.hits;
  sum.prefix.tokens += c.prefix.tokens;
  sum.prefix.tokens_found += c.prefix.tokens_found;
  sum.prefix.inserted += c.prefix.inserted;
  sum.prefix.evicted += c.prefix.evicted;
  sum.blocks_restored += c.blocks_restored;
}

void note_facts(ModelEntry& facts, const Model& model) {
  facts.family = model.family;
  facts.format = model.format;
  facts.executor = model.executor;
  facts.executor_detail = model.executor_detail;
  facts.context_length = model.context_length;
  facts.memory = model.memory;
  facts.scores_pairs = model.scores_pairs;
  facts.embeds = model.encoder != nullptr && !model.scores_pairs;
  facts.has_template = model.codec != nullptr && model.codec->has_template();
}

bool is_lack_of_memory(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const NoMemory&) {
    return true;
  } catch (const std::bad_alloc&) {
    return true;
  } catch (...) {
    return false;
  }
}

}  // namespace

void add(engine::Counters& sum, const engine::Counters& c) {
  add_counted(sum, c);
  sum.running += c.running;
  sum.waiting += c.waiting;
  sum.blocks_used += c.blocks_used;
  sum.blocks_kept += c.blocks_kept;
  sum.blocks_total += c.blocks_total;
  sum.prefix.entries += c.prefix.entries;
}

PoolState::PoolState(std::vector<ModelSource> sources, PoolOptions given) : options(std::move(given)) {
  const auto created = base::unix_seconds();
  for (ModelSource& source : sources) {
    Slot slot;
    slot.facts.id = source.id;
    slot.facts.names = source.names;
    slot.facts.created = created;
    slot.source = std::move(source);
    by_id.emplace(slot.source.id, slots.size());
    slots.push_back(std::move(slot));
  }
}

PoolState::Slot& PoolState::slot_locked(const std::string& id) {
  const auto found = by_id.find(id);
  if (found == by_id.end()) throw Error(Code::kInternal, "[pool.slot] expected an id of the pool; got " + id);
  return slots[found->second];
}

Lease PoolState::lease_locked(Slot& slot) {
  ++slot.leases;
  const auto index = static_cast<size_t>(&slot - slots.data());
  return {slot.model.get(), [self = shared_from_this(), index](const Model*) { self->release(index); }};
}

void PoolState::release(size_t index) {
  const std::lock_guard lock(mutex);
  Slot& slot = slots[index];
  if (--slot.leases > 0) return;
  slot.last_used = options.now();
  wake.notify_all();
}

uint64_t PoolState::want_locked(Slot& slot, OnLease on_lease) {
  if (stopped) throw Error(Code::kUnavailable, "[pool.lease] expected a running server; got one that stops");
  if (n_waiting >= options.max_waiting) {
    throw Error(Code::kOverloaded, "[pool.lease] expected room for one more request that waits for a model");
  }
  ++n_waiting;
  const uint64_t ticket = next_ticket++;
  slot.waiters.push_back({ticket, std::move(on_lease)});
  if (slot.phase != Phase::kUnloaded) return ticket;
  slot.phase = Phase::kWanted;
  slot.wanted_since = options.now();
  wanted.push_back(static_cast<size_t>(&slot - slots.data()));
  wake.notify_all();
  return ticket;
}

OnLease PoolState::withdraw_locked(Slot& slot, uint64_t ticket) {
  const auto found = std::find_if(slot.waiters.begin(), slot.waiters.end(),
                                  [&](const Waiter& waiter) { return waiter.ticket == ticket; });
  if (found == slot.waiters.end()) return nullptr;
  OnLease on_lease = std::move(found->on_lease);
  slot.waiters.erase(found);
  --n_waiting;
  if (slot.phase == Phase::kWanted && slot.waiters.empty()) {
    slot.phase = Phase::kUnloaded;
    std::erase(wanted, static_cast<size_t>(&slot - slots.data()));
  }
  return on_lease;
}

/// The last model stays: the next request would load it again.
bool PoolState::retire_for_memory_locked() {
  const auto n_ready =
      std::count_if(slots.begin(), slots.end(), [](const Slot& slot) { return slot.phase == Phase::kReady; });
  Slot* victim = n_ready > 1 ? victim_locked() : nullptr;
  if (victim == nullptr) return false;
  victim->phase = Phase::kRetiring;
  wake.notify_all();
  return true;
}

void PoolState::run() {
  std::unique_lock lock(mutex);
  while (!stopped) {
    if (step(lock)) continue;
    const milliseconds nap = nap_locked();
    if (nap.count() > 0) {
      wake.wait_for(lock, nap);
    } else {
      wake.wait(lock);
    }
  }
  for (Slot& slot : slots) {
    fail(slot,
         pointer_to(Error(Code::kUnavailable, "[pool.lease] expected a model; got a server that stops")),
         lock);
  }
}

void PoolState::stop_loading() {
  {
    const std::lock_guard lock(mutex);
    stopped = true;
    wake.notify_all();
  }
  if (thread.joinable()) thread.join();
}

/// False when there is nothing to do now.
bool PoolState::step(std::unique_lock<std::mutex>& lock) {
  return unload_one(lock) || retire_idle_locked() || serve_wanted(lock);
}

bool PoolState::unload_one(std::unique_lock<std::mutex>& lock) {
  const auto found = std::find_if(slots.begin(), slots.end(), [](const Slot& slot) {
    return slot.phase == Phase::kRetiring && slot.leases == 0;
  });
  if (found == slots.end()) return false;
  std::shared_ptr<const Model> model = std::exchange(found->model, nullptr);
  lock.unlock();
  base::log::info("unloading {}", model->id);
  // What dropped the last lease may still be on its way out of the engine's thread: this waits for it.
  model->generator->stop();
  const engine::Counters counted = model->generator->counters();
  model.reset();
  lock.lock();
  add_counted(retired, counted);
  found->phase = found->waiters.empty() ? Phase::kUnloaded : Phase::kWanted;
  if (found->phase == Phase::kWanted) {
    found->wanted_since = options.now();
    wanted.push_back(static_cast<size_t>(found - slots.begin()));
  }
  const auto done = std::exchange(found->unload_waiters, {});
  lock.unlock();
  for (const OnDone& call : done) call(nullptr);
  lock.lock();
  return true;
}

bool PoolState::retire_idle_locked() {
  if (options.idle_ttl_ms == 0) return false;
  const Time oldest = options.now() - milliseconds(options.idle_ttl_ms);
  bool any = false;
  for (Slot& slot : slots) {
    const bool is_idle = slot.phase == Phase::kReady && slot.leases == 0 && !slot.pinned;
    if (!is_idle || slot.last_used > oldest) continue;
    slot.phase = Phase::kRetiring;
    any = true;
  }
  return any;
}

bool PoolState::serve_wanted(std::unique_lock<std::mutex>& lock) {
  if (wanted.empty()) return false;
  const size_t index = wanted.front();
  Slot& slot = slots[index];
  if (has_room_locked(slot)) {
    wanted.pop_front();
    load(index, lock);
    return true;
  }
  if (Slot* victim = victim_locked()) {
    victim->phase = Phase::kRetiring;
    return true;
  }
  if (!is_hopeless_locked(slot)) return false;
  wanted.pop_front();
  slot.phase = Phase::kUnloaded;
  fail(slot,
       pointer_to(Error(Code::kUnavailable,
                        fmt::format("[pool.load] expected room for the model {}; got {} others that are in "
                                    "use or pinned",
                                    slot.source.id, n_loaded_locked()))),
       lock);
  return true;
}

void PoolState::load(size_t index, std::unique_lock<std::mutex>& lock) {
  Slot& slot = slots[index];
  slot.phase = Phase::kLoading;
  std::shared_ptr<const Model> model;
  std::exception_ptr error;
  lock.unlock();
  try {
    model = slot.source.load();
  } catch (...) {
    error = std::current_exception();
  }
  lock.lock();
  if (error != nullptr && is_lack_of_memory(error) && !stopped) {
    if (Slot* victim = victim_locked()) {
      victim->phase = Phase::kRetiring;
      slot.phase = Phase::kWanted;
      wanted.push_front(index);
      return;
    }
  }
  if (error != nullptr) {
    slot.phase = Phase::kUnloaded;
    return fail(slot, error, lock);
  }
  slot.model = std::move(model);
  slot.phase = Phase::kReady;
  slot.last_used = options.now();
  note_facts(slot.facts, *slot.model);
  std::vector<std::pair<OnLease, Lease>> calls;
  for (Waiter& waiter : std::exchange(slot.waiters, {}))
    calls.emplace_back(std::move(waiter.on_lease), lease_locked(slot));
  n_waiting -= calls.size();
  lock.unlock();
  for (auto& [call, lease] : calls) call(std::move(lease), nullptr);
  calls.clear();
  lock.lock();
}

void PoolState::fail(Slot& slot, std::exception_ptr why, std::unique_lock<std::mutex>& lock) {
  const auto waiters = std::exchange(slot.waiters, {});
  const auto unloads = std::exchange(slot.unload_waiters, {});
  n_waiting -= waiters.size();
  lock.unlock();
  for (const Waiter& waiter : waiters) waiter.on_lease(nullptr, why);
  for (const OnDone& call : unloads) call(why);
  lock.lock();
}

/// Where nothing else is loaded, nothing can be unloaded for it: the load itself finds out.
bool PoolState::has_room_locked(const Slot& slot) const {
  const size_t n_loaded = n_loaded_locked();
  if (n_loaded == 0) return true;
  if (options.max_loaded > 0 && n_loaded >= static_cast<size_t>(options.max_loaded)) return false;
  return !options.available_bytes || slot.source.needs_bytes <= options.available_bytes();
}

/// The one that was used least recently of those that nobody uses.
PoolState::Slot* PoolState::victim_locked() {
  Slot* victim = nullptr;
  for (Slot& slot : slots) {
    if (slot.phase != Phase::kReady || slot.leases > 0 || slot.pinned) continue;
    if (victim == nullptr || slot.last_used < victim->last_used) victim = &slot;
  }
  return victim;
}

/// No room can come, or it has not come for long.
bool PoolState::is_hopeless_locked(const Slot& slot) const {
  const bool all_pinned = std::all_of(slots.begin(), slots.end(), [](const Slot& other) {
    return other.phase != Phase::kReady || other.pinned;
  });
  const bool none_retires = std::none_of(slots.begin(), slots.end(),
                                         [](const Slot& other) { return other.phase == Phase::kRetiring; });
  return (all_pinned && none_retires) ||
         options.now() - slot.wanted_since >= milliseconds(options.room_wait_ms);
}

/// 0: nothing will happen by itself.
milliseconds PoolState::nap_locked() const {
  if (!wanted.empty()) return kNap;
  const bool expires =
      options.idle_ttl_ms > 0 && std::any_of(slots.begin(), slots.end(), [](const Slot& slot) {
        return slot.phase == Phase::kReady && slot.leases == 0 && !slot.pinned;
      });
  return expires ? kNap : milliseconds(0);
}

size_t PoolState::n_loaded_locked() const {
  return static_cast<size_t>(std::count_if(slots.begin(), slots.end(), [](const Slot& slot) {
    return slot.phase == Phase::kReady || slot.phase == Phase::kRetiring;
  }));
}

}  // namespace penstock::pool
