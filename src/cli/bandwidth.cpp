#include "cli/bandwidth.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>
#include <vector>

namespace penstock::cli {
namespace {

/// Reads `words` in `streams` interleaved runs; the sum keeps the compiler honest.
uint64_t read_streams(const uint64_t* words, size_t count, size_t streams) {
  const size_t run = count / streams / 8 * 8;
  uint64_t sums[8] = {};
  for (size_t i = 0; i < run; i += 8) {
    for (size_t s = 0; s < streams; ++s) {
      const uint64_t* at = words + s * run + i;
      for (size_t j = 0; j < 8; ++j) sums[j] ^= at[j];
    }
  }
  uint64_t total = 0;
  for (const uint64_t sum : sums) total ^= sum;
  return total;
}

double once(const std::vector<uint64_t>& buffer, int threads, size_t streams) {
  std::atomic<uint64_t> sink = 0;
  const size_t share = buffer.size() / static_cast<size_t>(threads);
  const auto start = std::chrono::steady_clock::now();
  std::vector<std::thread> workers;
  for (int t = 0; t < threads; ++t) {
    workers.emplace_back(
        [&, t] { sink ^= read_streams(buffer.data() + static_cast<size_t>(t) * share, share, streams); });
  }
  for (auto& worker : workers) worker.join();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return static_cast<double>(share * static_cast<size_t>(threads) * sizeof(uint64_t)) / seconds +
         static_cast<double>(sink & 1) * 1e-9;
}

}  // namespace

double read_bandwidth(int threads, size_t bytes) {
  std::vector<uint64_t> buffer(bytes / sizeof(uint64_t), 0x5a5a5a5a5a5a5a5aULL);
  double best = 0;
  for (int repeat = 0; repeat < 3; ++repeat) {
    for (const size_t streams : {1, 4, 8}) best = std::max(best, once(buffer, threads, streams));
  }
  return best;
}

}  // namespace penstock::cli
