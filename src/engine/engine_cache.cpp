// What is asked of the cache from outside, and how sequences and the disk cache meet.
#include <algorithm>

#include "base/error.h"
#include "engine/engine.h"

namespace penstock::engine {
namespace {

using base::Code;
using base::Error;

constexpr size_t kBlocksBehind = 4;  // written behind a step, so that the copies do not show in it

/// Calls once: when it is told to, else with nothing when nobody can tell it to any more.
class Answer {
 public:
  explicit Answer(OnCache call) : call_(std::move(call)) {}
  Answer(const Answer&) = delete;
  Answer& operator=(const Answer&) = delete;
  ~Answer() { give(std::nullopt); }

  void give(std::optional<CacheState> state) {
    if (const OnCache call = std::exchange(call_, nullptr)) call(state);
  }

 private:
  OnCache call_;
};

}  // namespace

void Engine::open_disk() {
  if (options_.disk == nullptr) return;
  if (!options_.prefix_cache) {
    throw Error(Code::kInvalidRequest,
                "[engine.disk] expected the prefix cache to be on where there is a disk cache; it is off");
  }
  const auto post = [inbox = inbox_](std::function<void()> call) {
    inbox->push_always({{}, 0, std::move(call)});
  };
  disk_ = std::make_unique<DiskTier>(DiskTier::Place{groups_, prefix_.index(), *executor_}, options_.disk,
                                     options_.fingerprint, post);
}

void Engine::clear_cache() {
  inbox_->push_always({{}, 0, [this] {
                         drop_kept();
                         if (disk_) disk_->clear();
                       }});
}

void Engine::trim_cache() {
  inbox_->push_always({{}, 0, [this] { drop_kept(); }});
}

/// Of memory: no step in flight touches a block that nobody uses.
void Engine::drop_kept() {
  prefix_.clear();
  for (size_t g = 0; g < groups_.list.size(); ++g)
    executor_->drop_blocks(static_cast<int32_t>(g), groups_.list[g].pool.empty());
  count_blocks();
}

void Engine::cache(CacheWish wish, OnCache on_done) {
  if (wish.kind == CacheWish::Kind::kPark && !disk_) {
    throw Error(
        Code::kUnsupported,
        "[engine.cache] expected a disk cache to park on; there is none: start with --disk-cache-dir");
  }
  const auto answer = std::make_shared<Answer>(std::move(on_done));
  inbox_->push_always({{}, 0, [this, answer, wish = std::move(wish)] {
                         grant(wish, [answer](std::optional<CacheState> state) { answer->give(state); });
                       }});
}

CacheState Engine::look(const cache::Beginning& beginning) const {
  return {prefix_.find(beginning).n_tokens, disk_ ? disk_->stored_tokens(beginning) : 0};
}

void Engine::grant(const CacheWish& wish, const OnCache& answer) {
  const cache::Beginning beginning{cache::salted_root(wish.salt), wish.tokens,
                                   static_cast<int32_t>(wish.tokens.size())};
  const auto done = [this, beginning, answer] {
    count_blocks();
    answer(look(beginning));
  };
  switch (wish.kind) {
    case CacheWish::Kind::kLook:
      return done();
    case CacheWish::Kind::kPark:
      return disk_->park(beginning, [this, answer, beginning](int32_t disk_tokens) {
        count_blocks();
        answer(CacheState{look(beginning).memory_tokens, disk_tokens});
      });
    case CacheWish::Kind::kFetch:
      if (disk_ && disk_->fetch(beginning, done)) return;
      return done();
    case CacheWish::Kind::kDrop:
      prefix_.drop(beginning, wish.keep_tokens);
      if (disk_) disk_->drop(beginning, wish.keep_tokens);
      return done();
  }
}

/// Whether the job stays in the queue while blocks come from the disk; they are asked for when it could
/// start.
bool Engine::waits_for_disk(const Candidate& candidate) {
  Sequence& first = *waiting_.at(candidate.id).front();
  if (!first.asked_disk && prefix_.uses(first)) {
    first.asked_disk = true;
    first.waits_disk = disk_->fetch(prefix_.beginning(first), [this, id = candidate.id] {
      const auto waiting = waiting_.find(id);
      if (waiting != waiting_.end()) waiting->second.front()->waits_disk = false;
      count_blocks();
    });
  }
  return first.waits_disk;
}

void Engine::write_behind() {
  if (disk_) disk_->write_behind(is_idle_ ? SIZE_MAX : kBlocksBehind);
}

}  // namespace penstock::engine
