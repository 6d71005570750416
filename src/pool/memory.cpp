#include "pool/memory.h"

#include <algorithm>
#include <fstream>
#include <optional>
#include <string>

#include <fmt/format.h>

#ifdef __APPLE__
#include <mach/mach.h>
#include <sys/sysctl.h>
#endif

namespace penstock::pool {
namespace {

constexpr uint64_t kMachineShare = 3;    // the cache takes one part of so many
constexpr uint64_t kDeviceReserve = 16;  // likewise what stays free: graphs, and others on the device

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

/// Of the control group: pages of files that the kernel takes back first, those of weights that were read
/// once, say.
uint64_t idle_file_cache() {
  std::ifstream in("/sys/fs/cgroup/memory.stat");
  std::string key;
  uint64_t bytes = 0;
  while (in >> key >> bytes) {
    if (key == "inactive_file") return bytes;
  }
  return 0;
}

}  // namespace

MachineMemory machine_memory() {
  MachineMemory memory = system_memory();
  const auto limit = read_number("/sys/fs/cgroup/memory.max");
  if (!limit) return memory;
  const uint64_t held = read_number("/sys/fs/cgroup/memory.current").value_or(0);
  const uint64_t used = held - std::min(held, idle_file_cache());
  memory.total_bytes = std::min(memory.total_bytes, *limit);
  memory.available_bytes = std::min(memory.available_bytes, *limit > used ? *limit - used : 0);
  return memory;
}

uint64_t automatic_cache_bytes(const exec::MemoryPlan& plan, int32_t slots) {
  if (plan.device_free_bytes == 0) return machine_memory().available_bytes / kMachineShare;
  const uint64_t usable = plan.device_free_bytes - plan.device_free_bytes / kDeviceReserve;
  const uint64_t fixed =
      plan.weight_bytes + plan.scratch_bytes + plan.slot_bytes * static_cast<uint64_t>(slots);
  if (fixed < usable) return usable - fixed;
  throw NoMemory(fmt::format(
      "[pool.load] expected {} MB of device memory for weights and {} MB for buffers; got {} MB free",
      plan.weight_bytes >> 20, (fixed - plan.weight_bytes) >> 20, plan.device_free_bytes >> 20));
}

}  // namespace penstock::pool
