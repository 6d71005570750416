// A few threads that run tasks from one bounded queue. Any thread may post. Not for work that waits on other
// tasks of the same pool.
#pragma once

#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "base/bounded_queue.h"

namespace penstock::serve {

class Workers {
 public:
  using Task = std::function<void()>;

  Workers(int threads, size_t capacity);
  ~Workers();  // stop()
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  /// False when the queue is full or the pool is stopped.
  bool try_post(Task task) { return queue_.try_push(std::move(task)); }

  /// For tasks whose number is bounded elsewhere. False only when the pool is stopped.
  bool post(Task task) { return queue_.push_always(std::move(task)); }

  /// Runs what is queued, then joins the threads. Idempotent; not from one of the pool's own threads.
  void stop();

 private:
  void run();

  base::BoundedQueue<Task> queue_;
  std::vector<std::thread> threads_;
};

}  // namespace penstock::serve
