// A file that is written again for every input, for readers of files, and a folder. Removed at the end. One
// thread.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include <unistd.h>

namespace penstock::fuzz {

/// This process's own path. In memory where the system has that: a file that is made safe from a crash costs
/// milliseconds elsewhere.
inline std::filesystem::path scratch_path(const std::string& suffix) {
  std::error_code error;
  const std::filesystem::path memory = "/dev/shm";
  const bool has_memory = std::filesystem::is_directory(memory, error);
  return (has_memory ? memory : std::filesystem::temp_directory_path()) /
         ("penstock-fuzz-" + std::to_string(::getpid()) + suffix);
}

class ScratchFile {
 public:
  explicit ScratchFile(const std::string& suffix) : path_(scratch_path(suffix)) {}
  ScratchFile(const ScratchFile&) = delete;
  ScratchFile& operator=(const ScratchFile&) = delete;
  ~ScratchFile() {
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
  }

  void write(std::string_view bytes) {
    std::ofstream file(path_, std::ios::binary | std::ios::trunc);
    file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  }
  const std::filesystem::path& path() const { return path_; }

 private:
  const std::filesystem::path path_;
};

class ScratchFolder {
 public:
  explicit ScratchFolder(const std::string& name) : path_(scratch_path("-" + name)) {
    std::filesystem::create_directories(path_);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  ~ScratchFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  const std::filesystem::path& path() const { return path_; }

 private:
  const std::filesystem::path path_;
};

}  // namespace penstock::fuzz
