#include "cli/bandwidth.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <fstream>
#include <string>
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

Bandwidth read_bandwidth(int threads, size_t bytes) {
  const std::vector<uint64_t> buffer(bytes / sizeof(uint64_t), 0x5a5a5a5a5a5a5a5aULL);
  Bandwidth best;
  for (int repeat = 0; repeat < 3; ++repeat) {
    for (const int streams : {1, 4, 8}) {
      const double bytes_per_s = once(buffer, threads, static_cast<size_t>(streams));
      if (bytes_per_s > best.bytes_per_s) best = {bytes_per_s, streams};
    }
  }
  return best;
}

uint64_t last_level_cache_bytes() {
  uint64_t largest = 0;
#ifdef __linux__
  // "32768K"; the largest is the last level.
  for (int index = 0; index < 8; ++index) {
    std::ifstream file("/sys/devices/system/cpu/cpu0/cache/index" + std::to_string(index) + "/size");
    uint64_t size = 0;
    char unit = ' ';
    if (file >> size) largest = std::max(largest, file >> unit && unit == 'M' ? size << 20 : size << 10);
  }
#endif
  return largest;
}

}  // namespace penstock::cli
