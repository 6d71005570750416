// How much memory this process may use: the machine's and the control group's limits.
#pragma once

#include <cstdint>

namespace penstock::pool {

struct MachineMemory {
  uint64_t total_bytes = 0;
  uint64_t available_bytes = 0;
};

/// The smaller of the machine's and the control group's numbers.
MachineMemory machine_memory();

}  // namespace penstock::pool
