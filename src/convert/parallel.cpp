#include "convert/parallel.h"

#include <algorithm>
#include <exception>
#include <thread>
#include <vector>

namespace penstock::convert {

void parallel_rows(int64_t rows, int threads, const std::function<void(int64_t, int64_t)>& work) {
  const int64_t n = std::clamp<int64_t>(threads, 1, std::max<int64_t>(rows, 1));
  std::vector<std::exception_ptr> failures(static_cast<size_t>(n));
  const auto run = [&](int64_t t) {
    try {
      const int64_t first = rows * t / n;
      work(first, rows * (t + 1) / n - first);
    } catch (...) {
      failures[static_cast<size_t>(t)] = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> others;
    for (int64_t t = 1; t < n; ++t) others.emplace_back(run, t);
    run(0);
  }
  for (const std::exception_ptr& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
}

}  // namespace penstock::convert
