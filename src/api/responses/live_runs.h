// The background responses that have not ended, by their ids. Thread-safe; owns none of them.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include "api/responses/run.h"

namespace penstock::api::responses {

class LiveRuns {
 public:
  void add(const std::shared_ptr<Run>& run) {
    const std::lock_guard lock(mutex_);
    by_id_[run->id()] = run;
  }

  void remove(const std::string& id) {
    const std::lock_guard lock(mutex_);
    by_id_.erase(id);
  }

  /// Null when there is none, or when it has ended.
  std::shared_ptr<Run> find(const std::string& id) const {
    const std::lock_guard lock(mutex_);
    const auto found = by_id_.find(id);
    return found == by_id_.end() ? nullptr : found->second.lock();
  }

 private:
  mutable std::mutex mutex_;
  std::unordered_map<std::string, std::weak_ptr<Run>> by_id_;
};

}  // namespace penstock::api::responses
