// How much memory this process may use: the machine's and the control group's limits, or what is free on the
// executor's device.
#pragma once

#include <cstdint>

#include "base/error.h"
#include "exec/executor.h"

namespace penstock::pool {

/// A model does not fit into what is free now.
class NoMemory : public base::Error {
 public:
  explicit NoMemory(const std::string& message) : base::Error(base::Code::kInvalidRequest, message) {}
};

struct MachineMemory {
  uint64_t total_bytes = 0;
  uint64_t available_bytes = 0;
};

/// The smaller of the machine's and the control group's numbers.
MachineMemory machine_memory();

/// Bytes that the cache may take when nobody said how much: a third of the machine's free memory; on a device
/// with memory of its own, what weights, buffers and a reserve of a sixteenth leave. Throws
/// NoMemory with the numbers where they leave nothing.
uint64_t automatic_cache_bytes(const exec::MemoryPlan& plan, int32_t slots);

}  // namespace penstock::pool
