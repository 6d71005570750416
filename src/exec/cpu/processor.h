// What the processor under us can do and how much of it we may use: instruction sets, cores allowed by
// affinity and cgroup quota. Any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "exec/cpu/kernels.h"

namespace penstock::exec::cpu {

/// Which kernels to use; kBest takes the widest that this processor has.
enum class Isa : uint8_t { kBest, kScalar, kAvx2, kAvx512, kNeon, kNeonDotprod, kNeonI8mm };

/// Every table that this processor can run, the widest first, the scalar one last.
std::vector<const Kernels*> available_kernels();

/// Throws Error(kUnsupported) when the processor lacks it.
const Kernels& choose_kernels(Isa isa);

/// Cores that this process may keep busy: physical cores in its affinity mask, at most its cgroup quota.
int32_t usable_cores();

/// Denormals are zero (kernels: they cost half the speed) or kept (decoding of stored formats: some rest on
/// them) while one of these lives, on the thread that made it.
enum class Denormals : uint8_t { kZero, kKept };

class DenormalScope {
 public:
  explicit DenormalScope(Denormals mode);
  ~DenormalScope();
  DenormalScope(const DenormalScope&) = delete;
  DenormalScope& operator=(const DenormalScope&) = delete;

 private:
  uint64_t before_ = 0;
};

}  // namespace penstock::exec::cpu
