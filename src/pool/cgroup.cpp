#include "pool/cgroup.h"

#include <fstream>
#include <string>
#include <string_view>
#include <vector>

namespace penstock::pool {
namespace {

namespace fs = std::filesystem;

// Version 1 writes "no limit" as the largest multiple of a page.
constexpr uint64_t kNoLimit = uint64_t{1} << 60;

/// How one version names its files.
struct Version {
  std::string_view limit, used, idle_file;  // the last is a line of memory.stat
};
constexpr Version kOne{"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"};
constexpr Version kTwo{"memory.max", "memory.current", "inactive_file"};

std::optional<uint64_t> read_number(const fs::path& path) {
  std::ifstream in(path);
  uint64_t value = 0;
  if (in >> value) return value;
  return std::nullopt;  // absent, or "max"
}

uint64_t read_stat(const fs::path& path, std::string_view name) {
  std::ifstream in(path);
  std::string key;
  uint64_t value = 0;
  while (in >> key >> value) {
    if (key == name) return value;
  }
  return 0;
}

/// Whether `list` ("cpu,memory") names the controller.
bool has_memory(std::string_view list) {
  while (!list.empty()) {
    const size_t comma = std::min(list.find(','), list.size());
    if (list.substr(0, comma) == "memory") return true;
    list.remove_prefix(std::min(comma + 1, list.size()));
  }
  return false;
}

/// A line is "4:memory:/path" in version 1, "0::/path" in version 2.
struct Membership {
  std::optional<std::string> one, two;
};

Membership read_membership(const fs::path& path) {
  Membership membership;
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) {
    const size_t first = line.find(':');
    const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string_view controllers = std::string_view(line).substr(first + 1, second - first - 1);
    if (has_memory(controllers)) membership.one = line.substr(second + 1);
    if (controllers.empty()) membership.two = line.substr(second + 1);
  }
  return membership;
}

/// The group's folder and those above it. Inside a container the path is that of the host, and only the top
/// is there; one that leads out of a namespace ("/..") says nothing.
std::vector<fs::path> levels(const fs::path& top, const std::string& group) {
  std::vector<fs::path> found{top};
  if (group.find("..") != std::string::npos) return found;
  fs::path at = top;
  for (const fs::path& part : fs::path(group).relative_path()) found.push_back(at /= part);
  return found;
}

void tighten(CgroupMemory& tightest, const fs::path& level, const Version& version) {
  const auto limit = read_number(level / version.limit);
  if (!limit || *limit >= kNoLimit) return;
  CgroupMemory memory;
  memory.limit_bytes = limit;
  memory.used_bytes = read_number(level / version.used).value_or(0);
  memory.idle_file_bytes = read_stat(level / "memory.stat", version.idle_file);
  if (!tightest.limit_bytes || memory.available_bytes() < tightest.available_bytes()) tightest = memory;
}

}  // namespace

CgroupMemory cgroup_memory(const CgroupFiles& files) {
  const Membership membership = read_membership(files.membership);
  CgroupMemory tightest;
  if (membership.one) {
    for (const fs::path& level : levels(files.root / "memory", *membership.one))
      tighten(tightest, level, kOne);
  } else {
    for (const fs::path& level : levels(files.root, membership.two.value_or("/")))
      tighten(tightest, level, kTwo);
  }
  return tightest;
}

}  // namespace penstock::pool
