// What the machine and the system's limits say of memory, and what this process holds. Reads the system's
// files; any thread. Decides nothing: memory_guard.h does.
#pragma once

#include <cstdint>
#include <optional>

#include "pool/cgroup.h"

namespace penstock::pool {

struct MachineMemory {
  uint64_t total_bytes = 0;
  uint64_t available_bytes = 0;
};

/// The smaller of the machine's and the control group's numbers.
MachineMemory machine_memory();

/// Absent numbers are those that this system does not tell.
struct ProcessMemory {
  std::optional<uint64_t> resident_bytes, peak_resident_bytes;
  std::optional<uint64_t> allocated_bytes;  // private and writable, touched or not
};
ProcessMemory process_memory();

struct MemoryReading {
  MachineMemory machine;
  ProcessMemory process;
  CgroupMemory cgroup;
};
MemoryReading read_memory();

}  // namespace penstock::pool
