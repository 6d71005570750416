#include "exec/cpu/processor.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <set>
#include <sstream>
#include <thread>

#ifdef __linux__
#include <sched.h>
#endif
#ifdef __x86_64__
#include <xmmintrin.h>
#elif defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#elif defined(__aarch64__) && defined(__APPLE__)
#include <sys/sysctl.h>
#endif

#include "base/error.h"

namespace penstock::exec::cpu {

namespace {

bool has_avx2() {
#ifdef __x86_64__
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
#else
  return false;
#endif
}

/// AVX-512 with its dot product of bytes.
bool has_avx512() {
#ifdef __x86_64__
  return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("avx512vnni");
#else
  return false;
#endif
}

#if defined(__aarch64__) && defined(__APPLE__)
bool has_feature(const char* name) {
  int32_t has = 0;
  size_t bytes = sizeof(has);
  return sysctlbyname(name, &has, &bytes, nullptr, 0) == 0 && has != 0;
}
#endif

/// The dot product of bytes, an option of ARMv8.2. NEON itself is part of every arm64 processor.
bool has_dotprod() {
#if defined(__aarch64__) && defined(__linux__)
  constexpr unsigned long kDotprod = 1ul << 20;  // HWCAP_ASIMDDP
  return (getauxval(AT_HWCAP) & kDotprod) != 0;
#elif defined(__aarch64__) && defined(__APPLE__)
  return has_feature("hw.optional.arm.FEAT_DotProd");
#else
  return false;
#endif
}

/// The matrix product of bytes, an option of ARMv8.2 and part of ARMv8.6.
bool has_i8mm() {
#if defined(__aarch64__) && defined(__linux__)
  constexpr unsigned long kI8mm = 1ul << 13;  // HWCAP2_I8MM
  return has_dotprod() && (getauxval(AT_HWCAP2) & kI8mm) != 0;
#elif defined(__aarch64__) && defined(__APPLE__)
  return has_dotprod() && has_feature("hw.optional.arm.FEAT_I8MM");
#else
  return false;
#endif
}

/// Null when this processor or this build lacks it.
const Kernels* table_of(Isa isa) {
  switch (isa) {
    case Isa::kBest:
    case Isa::kScalar:
      return &scalar_kernels();
    case Isa::kAvx2:
      return has_avx2() ? avx2_kernels() : nullptr;
    case Isa::kAvx512:
      return has_avx512() ? avx512_kernels() : nullptr;
    case Isa::kNeon:
      return neon_kernels();
    case Isa::kNeonDotprod:
      return has_dotprod() ? neon_dotprod_kernels() : nullptr;
    case Isa::kNeonI8mm:
      return has_i8mm() ? neon_i8mm_kernels() : nullptr;
  }
  return nullptr;
}

const char* needs(Isa isa) {
  switch (isa) {
    case Isa::kAvx2:
      return "AVX2, FMA and F16C";
    case Isa::kAvx512:
      return "AVX-512 with VNNI";
    case Isa::kNeonDotprod:
      return "NEON and its dot product";
    case Isa::kNeonI8mm:
      return "NEON, its dot product and its matrix product";
    default:
      return "NEON";
  }
}

#ifdef __linux__
std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

/// Physical cores among the processors of the affinity mask.
int32_t allowed_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return 0;
  std::set<std::string> cores;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &set)) continue;
    const std::string siblings =
        first_line("/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/thread_siblings_list");
    cores.insert(siblings.empty() ? std::to_string(cpu) : siblings);
  }
  return static_cast<int32_t>(cores.size());
}

/// Cores that one cgroup's quota pays for; 0 for no quota. `v2` tells how the system writes it.
double quota_of(const std::string& folder, bool v2) {
  double microseconds = 0, period = 0;
  std::istringstream quota(v2 ? first_line(folder + "/cpu.max")
                              : first_line(folder + "/cpu.cfs_quota_us") + " " +
                                    first_line(folder + "/cpu.cfs_period_us"));
  return quota >> microseconds >> period && microseconds > 0 && period > 0 ? microseconds / period : 0;
}

/// The least of the quotas of our cgroup and of those around it; 0 for none.
double quota_cores() {
  std::ifstream groups("/proc/self/cgroup");
  double least = 0;
  for (std::string line; std::getline(groups, line);) {  // "4:cpu,cpuacct:/path", "0::/path"
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const bool v2 = controllers.empty();
    if (!v2 && ("," + controllers + ",").find(",cpu,") == std::string::npos) continue;
    const std::string mount = v2 ? "/sys/fs/cgroup" : "/sys/fs/cgroup/" + controllers;
    for (std::string path = line.substr(second + 1);; path = path.substr(0, path.rfind('/'))) {
      if (path == "/") path.clear();
      const double cores = quota_of(mount + path, v2);
      if (cores > 0) least = least == 0 ? cores : std::min(least, cores);
      if (path.empty()) break;
    }
  }
  return least;
}
#endif

}  // namespace

std::vector<const Kernels*> available_kernels() {
  std::vector<const Kernels*> tables;
  for (const Isa isa :
       {Isa::kAvx512, Isa::kAvx2, Isa::kNeonI8mm, Isa::kNeonDotprod, Isa::kNeon, Isa::kScalar})
    if (const Kernels* table = table_of(isa); table != nullptr) tables.push_back(table);
  return tables;
}

const Kernels& choose_kernels(Isa isa) {
  const Kernels* table = isa == Isa::kBest ? available_kernels().front() : table_of(isa);
  if (table == nullptr)
    throw base::Error(base::Code::kUnsupported, std::string("[exec.cpu.kernels] expected a processor with ") +
                                                    needs(isa) + "; this one lacks them");
  return *table;
}

int32_t usable_cores() {
#ifdef __linux__
  const int32_t cores = allowed_cores();
  const double quota = quota_cores();
  if (cores > 0) return quota > 0 ? std::clamp(static_cast<int32_t>(std::ceil(quota)), 1, cores) : cores;
#endif
  return static_cast<int32_t>(std::max(1u, std::thread::hardware_concurrency()));
}

DenormalScope::DenormalScope([[maybe_unused]] Denormals mode) {
#ifdef __x86_64__
  constexpr uint32_t kZero = 0x8040;
  before_ = _mm_getcsr();
  const auto bits = static_cast<uint32_t>(before_);
  _mm_setcsr(mode == Denormals::kZero ? bits | kZero : bits & ~kZero);
#elif defined(__aarch64__)
  constexpr uint64_t kZero = uint64_t{1} << 24;
  asm volatile("mrs %0, fpcr" : "=r"(before_));
  asm volatile("msr fpcr, %0" : : "r"(mode == Denormals::kZero ? before_ | kZero : before_ & ~kZero));
#endif
}

DenormalScope::~DenormalScope() {
#ifdef __x86_64__
  _mm_setcsr(static_cast<uint32_t>(before_));
#elif defined(__aarch64__)
  asm volatile("msr fpcr, %0" : : "r"(before_));
#endif
}

}  // namespace penstock::exec::cpu
