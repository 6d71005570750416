#include "serve/workers.h"

#include <exception>

#include "base/log.h"

namespace penstock::serve {

Workers::Workers(int threads, size_t capacity) : queue_(capacity) {
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { run(); });
}

Workers::~Workers() {
  stop();
}

void Workers::stop() {
  queue_.close();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

void Workers::run() {
  while (auto task = queue_.pop()) {
    try {
      (*task)();
    } catch (const std::exception& error) {
      base::log::error("a task of serve threw: {}", error.what());
    }
  }
}

}  // namespace penstock::serve
