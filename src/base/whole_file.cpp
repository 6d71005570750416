#include "base/whole_file.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"

namespace penstock::base {
namespace {

Error io_error(const char* what, const std::filesystem::path& path) {
  return {Code::kIo, std::string("[base.whole_file] expected to ") + what + " " + path.string() + "; " +
                         std::strerror(errno)};
}

class Descriptor {
 public:
  Descriptor(const std::filesystem::path& path, int flags)
      : path_(path), fd_(::open(path.c_str(), flags, 0600)) {
    if (fd_ < 0) throw io_error("open", path);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() { ::close(fd_); }

  void write(std::string_view bytes) const {
    while (!bytes.empty()) {
      const ssize_t n = ::write(fd_, bytes.data(), bytes.size());
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) throw io_error("write", path_);
      bytes.remove_prefix(static_cast<size_t>(n));
    }
  }
  int get() const { return fd_; }
  size_t read(char* to, size_t size) const {
    size_t done = 0;
    while (done < size) {
      const ssize_t n = ::read(fd_, to + done, size - done);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) throw io_error("read", path_);
      if (n == 0) break;
      done += static_cast<size_t>(n);
    }
    return done;
  }
  void sync() const {
    if (::fsync(fd_) != 0) throw io_error("sync", path_);
  }

 private:
  const std::filesystem::path& path_;
  const int fd_;
};

void sync_folder(const std::filesystem::path& folder) {
  const Descriptor fd(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  fd.sync();
}

}  // namespace

void write_whole(const std::filesystem::path& path, std::span<const std::string_view> pieces,
                 Durable durable) {
  std::filesystem::path partial = path;
  partial += kPartialSuffix;
  try {
    const Descriptor fd(partial, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC);
    for (const std::string_view piece : pieces) fd.write(piece);
    if (durable == Durable::kYes) fd.sync();
    if (::rename(partial.c_str(), path.c_str()) != 0) throw io_error("name", path);
  } catch (const Error&) {
    ::unlink(partial.c_str());
    throw;
  }
  if (durable == Durable::kYes) sync_folder(path.parent_path());
}

void sync_file(const std::filesystem::path& path) {
  {
    const Descriptor fd(path, O_RDONLY | O_CLOEXEC);
    fd.sync();
  }
  sync_folder(path.parent_path());
}

std::string read_front(const std::filesystem::path& path, size_t max_bytes) {
  const Descriptor fd(path, O_RDONLY | O_CLOEXEC);
  struct stat status = {};
  if (::fstat(fd.get(), &status) != 0) throw io_error("read", path);
  // Not more than there is: the limit is 64 MiB for files of a few hundred bytes.
  std::string bytes(std::min(max_bytes, static_cast<size_t>(status.st_size)), '\0');
  bytes.resize(fd.read(bytes.data(), bytes.size()));
  return bytes;
}

}  // namespace penstock::base
