// A file mapped read-only. Shared by every view into it; safe from any thread. Does not guard against another
// process that shortens the file while it is mapped.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>

namespace penstock::tensor {

class MappedFile {
 public:
  /// Throws Error: kNotFound when missing, kCorrupt when empty, a Git LFS pointer or a partial download
  /// (".incomplete"), kIo when the system refuses.
  static std::shared_ptr<const MappedFile> open(const std::filesystem::path& path);

  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  const std::filesystem::path& path() const { return path_; }
  std::span<const std::byte> bytes() const { return bytes_; }

  /// True when `part` lies inside the mapping.
  bool contains(std::span<const std::byte> part) const;

  /// Lets go of the memory of the pages wholly inside `part`; a later read brings them back.
  void drop(std::span<const std::byte> part) const;

 private:
  MappedFile(std::filesystem::path path, std::span<const std::byte> bytes)
      : path_(std::move(path)), bytes_(bytes) {}

  std::filesystem::path path_;
  std::span<const std::byte> bytes_;
};

}  // namespace penstock::tensor
