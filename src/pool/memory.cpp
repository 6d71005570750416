#include "pool/memory.h"

#include <algorithm>
#include <fstream>
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
/// Calls `take(name, kilobytes)` for each line "Name:  123 kB".
template <class Take>
void read_kilobytes(const char* path, const Take& take) {
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) {
    const size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    take(std::string_view(line).substr(0, colon), std::strtoull(line.c_str() + colon + 1, nullptr, 10));
  }
}

MachineMemory system_memory() {
  MachineMemory memory;
  read_kilobytes("/proc/meminfo", [&](std::string_view name, uint64_t kilobytes) {
    if (name == "MemTotal") memory.total_bytes = kilobytes * 1024;
    if (name == "MemAvailable") memory.available_bytes = kilobytes * 1024;
  });
  return memory;
}
#endif

MachineMemory within(MachineMemory memory, const CgroupMemory& cgroup) {
  if (!cgroup.limit_bytes) return memory;
  memory.total_bytes = std::min(memory.total_bytes, *cgroup.limit_bytes);
  memory.available_bytes = std::min(memory.available_bytes, cgroup.available_bytes());
  return memory;
}

}  // namespace

#ifdef __APPLE__
ProcessMemory process_memory() {
  ProcessMemory memory;
  mach_task_basic_info info;
  mach_msg_type_number_t count = MACH_TASK_BASIC_INFO_COUNT;
  if (task_info(mach_task_self(), MACH_TASK_BASIC_INFO, reinterpret_cast<task_info_t>(&info), &count) !=
      KERN_SUCCESS)
    return memory;
  memory.resident_bytes = info.resident_size;
  memory.peak_resident_bytes = info.resident_size_max;
  return memory;
}
#else
ProcessMemory process_memory() {
  ProcessMemory memory;
  read_kilobytes("/proc/self/status", [&](std::string_view name, uint64_t kilobytes) {
    if (name == "VmRSS") memory.resident_bytes = kilobytes * 1024;
    if (name == "VmHWM") memory.peak_resident_bytes = kilobytes * 1024;
    if (name == "VmData") memory.allocated_bytes = kilobytes * 1024;
  });
  return memory;
}
#endif

MachineMemory machine_memory() {
  return within(system_memory(), cgroup_memory());
}

MemoryReading read_memory() {
  MemoryReading reading;
  reading.cgroup = cgroup_memory();
  reading.machine = within(system_memory(), reading.cgroup);
  reading.process = process_memory();
  return reading;
}

}  // namespace penstock::pool
