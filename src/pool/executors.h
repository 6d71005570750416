// The executors of this build, in the order in which `auto` tries them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "exec/executor.h"

namespace penstock::pool {

/// Names of the executors in this build: "cpu", "cuda" and "mlx" where built with them, "reference".
std::vector<std::string> executor_names();

/// Makes the executor of that name; `cpu_instructions` is the setting of that name. Throws
/// Error(kUnsupported) naming the executors there are, Error(kInvalidRequest) for instructions that this
/// processor lacks.
std::unique_ptr<exec::Executor> make_executor(std::string_view name,
                                              std::string_view cpu_instructions = "auto");

/// Threads that the CPU executor takes by itself: cores allowed by affinity and by the cgroup's quota.
int32_t usable_cores();

/// The names that `choice` stands for, in order: auto is cuda where there is a device, then cpu, then mlx.
std::vector<std::string> executor_order(std::string_view choice);

}  // namespace penstock::pool
