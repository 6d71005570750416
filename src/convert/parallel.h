// Rows split over short-lived threads. The caller waits; the first exception of a thread is rethrown.
#pragma once

#include <cstdint>
#include <functional>

namespace penstock::convert {

/// Calls work(first, count) for disjoint ranges that cover [0, rows), on at most `threads` threads.
void parallel_rows(int64_t rows, int threads, const std::function<void(int64_t first, int64_t count)>& work);

}  // namespace penstock::convert
