#include "tensor/mapped_file.h"

#include <cerrno>
#include <cstring>
#include <string>
#include <string_view>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"

namespace penstock::tensor {
namespace {

using base::Code;
using base::Error;

constexpr std::string_view kLfsPointer = "version https://git-lfs";

Error fail(Code code, const std::filesystem::path& path, const std::string& expected,
           const std::string& got) {
  return Error(code, "[tensor.open] expected " + expected + " at " + path.string() + "; got " + got);
}

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  int get() const { return fd_; }

 private:
  int fd_;
};

void check_content(const std::filesystem::path& path, std::span<const std::byte> bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()),
                              std::min<size_t>(bytes.size(), 64));
  if (text.starts_with(kLfsPointer)) {
    throw fail(Code::kCorrupt, path, "weights",
               "a Git LFS pointer: the file itself was not downloaded (git lfs pull)");
  }
}

/// The largest range of whole pages inside `part`.
std::span<std::byte> pages_inside(std::span<const std::byte> part) {
  const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto first = reinterpret_cast<uintptr_t>(part.data());
  const uintptr_t last = first + part.size();
  const uintptr_t from = (first + page - 1) / page * page, to = last / page * page;
  if (to <= from) return {};
  return {reinterpret_cast<std::byte*>(from), to - from};  // NOLINT(performance-no-int-to-ptr)
}

}  // namespace

std::shared_ptr<const MappedFile> MappedFile::open(const std::filesystem::path& path) {
  if (path.extension() == ".incomplete") {
    throw fail(Code::kCorrupt, path, "a complete file",
               "a partial download; pull the model again to resume it");
  }
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0) {
    const Code code = errno == ENOENT || errno == ENOTDIR ? Code::kNotFound : Code::kIo;
    throw fail(code, path, "a readable file", std::strerror(errno));
  }
  struct stat status = {};
  if (::fstat(file.get(), &status) != 0) throw fail(Code::kIo, path, "a readable file", std::strerror(errno));
  if (!S_ISREG(status.st_mode)) throw fail(Code::kIo, path, "a regular file", "something else");
  const auto size = static_cast<size_t>(status.st_size);
  if (size == 0) throw fail(Code::kCorrupt, path, "weights", "an empty file");
  void* at = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, file.get(), 0);
  if (at == MAP_FAILED) throw fail(Code::kIo, path, "a file that can be mapped", std::strerror(errno));
  std::shared_ptr<const MappedFile> mapped(new MappedFile(path, {static_cast<const std::byte*>(at), size}));
  check_content(path, mapped->bytes());
  return mapped;
}

MappedFile::~MappedFile() {
  ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

bool MappedFile::contains(std::span<const std::byte> part) const {
  const auto at = reinterpret_cast<uintptr_t>(part.data());
  const auto base = reinterpret_cast<uintptr_t>(bytes_.data());
  return at >= base && at - base <= bytes_.size() && part.size() <= bytes_.size() - (at - base);
}

void MappedFile::drop(std::span<const std::byte> part) const {
  const std::span<std::byte> range = pages_inside(part);
  if (!range.empty() && contains(part)) ::madvise(range.data(), range.size(), MADV_DONTNEED);
}

}  // namespace penstock::tensor
