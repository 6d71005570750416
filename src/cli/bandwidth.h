// What this machine's memory can do, so that a speed can be judged against it in the same minute: read
// bandwidth, size of the last-level cache. Any thread, no state.
#pragma once

#include <cstddef>
#include <cstdint>

namespace penstock::cli {

struct Bandwidth {
  double bytes_per_s = 0;
  int streams = 0;  // sequential runs a thread that gave it
};

/// Best of 1, 4 and 8 sequential streams a thread over a buffer of `bytes`.
Bandwidth read_bandwidth(int threads, size_t bytes);

/// Bytes of the largest cache that the first processor shares with others; 0 where the system does not say.
uint64_t last_level_cache_bytes();

}  // namespace penstock::cli
