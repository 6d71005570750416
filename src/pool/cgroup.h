// What the control group of this process (version 2 or 1) lets it have of memory. Reads the system's files,
// or those of a test; any thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <optional>

namespace penstock::pool {

/// Of the group, or of the one above it, that leaves the least.
struct CgroupMemory {
  std::optional<uint64_t> limit_bytes;  // absent: no group, or no limit
  uint64_t used_bytes = 0;
  uint64_t idle_file_bytes = 0;  // of those used: pages of files that the kernel takes back first

  /// What is left under the limit.
  uint64_t available_bytes() const {
    const uint64_t held = used_bytes - std::min(used_bytes, idle_file_bytes);
    return limit_bytes && *limit_bytes > held ? *limit_bytes - held : 0;
  }
};

struct CgroupFiles {
  std::filesystem::path root = "/sys/fs/cgroup";
  std::filesystem::path membership = "/proc/self/cgroup";
};

CgroupMemory cgroup_memory(const CgroupFiles& files = {});

}  // namespace penstock::pool
