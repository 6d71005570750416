// Read bandwidth of this machine's memory, measured so that a speed can be judged against it in the same
// minute.
#pragma once

#include <cstddef>

namespace penstock::cli {

/// Best of 1, 4 and 8 sequential streams a thread over a buffer of `bytes`. Bytes a second.
double read_bandwidth(int threads, size_t bytes);

}  // namespace penstock::cli
