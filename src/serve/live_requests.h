// The requests that have not ended, by the id of their answer, so that anyone may cancel one. Thread-safe;
// owns none of them.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

namespace penstock::serve {

class RequestWork;

class LiveRequests {
 public:
  /// An empty id is not entered.
  void add(const std::string& id, std::weak_ptr<RequestWork> work) {
    if (id.empty()) return;
    const std::lock_guard lock(mutex_);
    by_id_[id] = std::move(work);
  }

  void remove(const std::string& id) {
    const std::lock_guard lock(mutex_);
    by_id_.erase(id);
  }

  /// Null when there is none, or when it has ended.
  std::shared_ptr<RequestWork> find(const std::string& id) const {
    const std::lock_guard lock(mutex_);
    const auto found = by_id_.find(id);
    return found == by_id_.end() ? nullptr : found->second.lock();
  }

 private:
  mutable std::mutex mutex_;
  std::unordered_map<std::string, std::weak_ptr<RequestWork>> by_id_;
};

}  // namespace penstock::serve
