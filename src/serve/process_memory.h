// What this process takes of the machine's memory, and what it may take. Reads the system's files; any
// thread.
#pragma once

#include <cstdint>
#include <optional>

namespace penstock::serve {

struct ProcessMemory {
  std::optional<uint64_t> resident_bytes;
  std::optional<uint64_t> cgroup_limit_bytes, cgroup_used_bytes;  // absent: no control group, or no limit
};

/// Absent numbers are those that this system does not tell.
ProcessMemory process_memory();

}  // namespace penstock::serve
