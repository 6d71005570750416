#include "pool/memory.h"

#include <algorithm>
#include <fstream>
#include <optional>
#include <string>

#ifdef __APPLE__
#include <mach/mach.h>
#include <sys/sysctl.h>
#endif

namespace penstock::pool {
namespace {

#ifdef __APPLE__
MachineMemory system_memory() {
  MachineMemory memory;
  size_t size = sizeof(memory.total_bytes);
  sysctlbyname("hw.memsize", &memory.total_bytes, &size, nullptr, 0);
  vm_statistics64_data_t pages;
  mach_msg_type_number_t count = HOST_VM_INFO64_COUNT;
  host_statistics64(mach_host_self(), HOST_VM_INFO64, reinterpret_cast<host_info64_t>(&pages), &count);
  memory.available_bytes = (uint64_t{pages.free_count} + pages.inactive_count) * vm_kernel_page_size;
  return memory;
}
#else
MachineMemory system_memory() {
  MachineMemory memory;
  std::ifstream in("/proc/meminfo");
  std::string key, unit;
  uint64_t kilobytes = 0;
  while (in >> key >> kilobytes && std::getline(in, unit)) {
    if (key == "MemTotal:") memory.total_bytes = kilobytes * 1024;
    if (key == "MemAvailable:") memory.available_bytes = kilobytes * 1024;
  }
  return memory;
}
#endif

std::optional<uint64_t> read_number(const char* path) {
  std::ifstream in(path);
  uint64_t value = 0;
  if (in >> value) return value;
  return std::nullopt;  // absent, or "max"
}

}  // namespace

MachineMemory machine_memory() {
  MachineMemory memory = system_memory();
  const auto limit = read_number("/sys/fs/cgroup/memory.max");
  if (!limit) return memory;
  const uint64_t used = read_number("/sys/fs/cgroup/memory.current").value_or(0);
  memory.total_bytes = std::min(memory.total_bytes, *limit);
  memory.available_bytes = std::min(memory.available_bytes, *limit > used ? *limit - used : 0);
  return memory;
}

}  // namespace penstock::pool
