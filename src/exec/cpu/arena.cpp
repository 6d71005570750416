#include "exec/cpu/arena.h"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include <sys/mman.h>
#include <unistd.h>

#include "base/error.h"

namespace penstock::exec::cpu {

namespace {

constexpr size_t kHugePage = size_t{2} << 20;
constexpr size_t kSlabBytes = size_t{64} << 20;

/// Fresh pages that begin on a multiple of kHugePage; MAP_FAILED when the system has none.
void* map_aligned(size_t bytes) {
  void* memory = mmap(nullptr, bytes + kHugePage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return memory;
  auto* first = static_cast<uint8_t*>(memory);
  const size_t before = (kHugePage - reinterpret_cast<uintptr_t>(first) % kHugePage) % kHugePage;
  if (before > 0) munmap(first, before);
  if (before < kHugePage) munmap(first + before + bytes, kHugePage - before);
  return first + before;
}

}  // namespace

Arena::Arena(size_t bytes) {
  if (bytes == 0) return;
  // A guard of readable bytes at the end: kernels may prefetch and load a little past what they use.
  bytes_ = (bytes + 4096 + 4095) & ~size_t{4095};
  const bool large = bytes_ >= 4 * kHugePage;
  void* memory = large ? map_aligned(bytes_)
                       : mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    bytes_ = 0;
    throw base::Error(base::Code::kOverloaded,
                      "[exec.cpu.memory] the system refused " + std::to_string(bytes) + " bytes");
  }
  data_ = static_cast<uint8_t*>(memory);
#ifdef MADV_HUGEPAGE
  if (large) madvise(memory, bytes_, MADV_HUGEPAGE);
#endif
}

Arena::~Arena() {
  if (data_ != nullptr) munmap(data_, bytes_);
}

void Arena::drop(size_t first_byte, size_t bytes) const {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const size_t first = (first_byte + page - 1) / page * page;
  const size_t last = (first_byte + bytes) / page * page;
  // Advice only: a refusal leaves the pages where they are.
  if (first < last) static_cast<void>(madvise(data_ + first, last - first, MADV_DONTNEED));
}

uint8_t* Slabs::take(size_t bytes) {
  bytes = (bytes + 63) & ~size_t{63};
  if (slabs_.empty() || end_ + bytes > slabs_.back().bytes() - 4096) {
    slabs_.emplace_back(std::max(bytes, kSlabBytes));
    end_ = 0;
  }
  last_ = std::exchange(end_, end_ + bytes);
  return slabs_.back().data() + last_;
}

void Slabs::undo() {
  std::memset(slabs_.back().data() + last_, 0, end_ - last_);
  end_ = last_;
}

struct MappedPages::Ranges {
  std::vector<std::pair<uintptr_t, uintptr_t>> files;
};

MappedPages::MappedPages() : ranges_(new Ranges) {
#ifdef __linux__
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    std::istringstream fields(line);
    std::string range, mode, offset, device;
    uint64_t inode = 0;
    if (!(fields >> range >> mode >> offset >> device >> inode) || inode == 0 || mode[1] != '-') continue;
    const size_t dash = range.find('-');
    ranges_->files.emplace_back(std::stoull(range.substr(0, dash), nullptr, 16),
                                std::stoull(range.substr(dash + 1), nullptr, 16));
  }
#endif
}

MappedPages::~MappedPages() {
  delete ranges_;
}

void MappedPages::drop(const void* data, size_t bytes) const {
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const uintptr_t first = (reinterpret_cast<uintptr_t>(data) + page - 1) / page * page;
  const uintptr_t last = (reinterpret_cast<uintptr_t>(data) + bytes) / page * page;
  if (first >= last) return;
  for (const auto& [from, to] : ranges_->files)
    if (first >= from && last <= to) {
      // Advice only: a refusal leaves the pages where they are.
      static_cast<void>(madvise(reinterpret_cast<void*>(first), last - first, MADV_DONTNEED));
      return;
    }
}

}  // namespace penstock::exec::cpu
