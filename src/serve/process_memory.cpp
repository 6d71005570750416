#include "serve/process_memory.h"

#include <fstream>

#include <unistd.h>

namespace penstock::serve {
namespace {

std::optional<uint64_t> read_number(const char* path, int skip = 0) {
  std::ifstream in(path);
  uint64_t value = 0;
  for (int i = 0; i <= skip; ++i)
    if (!(in >> value)) return std::nullopt;  // absent, or "max"
  return value;
}

}  // namespace

ProcessMemory process_memory() {
  ProcessMemory memory;
  if (const auto pages = read_number("/proc/self/statm", 1))
    memory.resident_bytes = *pages * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  memory.cgroup_limit_bytes = read_number("/sys/fs/cgroup/memory.max");
  memory.cgroup_used_bytes = read_number("/sys/fs/cgroup/memory.current");
  return memory;
}

}  // namespace penstock::serve
