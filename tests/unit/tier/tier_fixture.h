// What the tests of the disk cache share: a folder that goes away, blocks with bytes that tell them apart.
#pragma once

#include <atomic>
#include <filesystem>
#include <fstream>
#include <string>

#include <gtest/gtest.h>
#include <unistd.h>

#include "tier/disk_store.h"

namespace penstock::testing {

class TemporaryFolder {
 public:
  TemporaryFolder() {
    static std::atomic<int> number = 0;
    path_ = std::filesystem::temp_directory_path() /
            ("penstock-tier-" + std::to_string(::getpid()) + "-" + std::to_string(number++));
    std::filesystem::create_directories(path_);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

inline const std::string kModel(32, 'a');

/// A block of eight tokens behind `parent`; group 1 is there for even numbers only.
inline tier::StoredBlock block_of(int32_t number, cache::PrefixKey parent = {1, 2}, size_t bytes = 1000) {
  tier::StoredBlock block;
  block.parent = parent;
  for (int32_t i = 0; i < 8; ++i) block.tokens.push_back(number * 8 + i);
  block.key = cache::extend(parent, block.tokens);
  block.groups.resize(2);
  for (size_t i = 0; i < bytes; ++i) block.groups[0].push_back(static_cast<std::byte>(number + i * 7));
  if (number % 2 == 0) block.groups[1].assign(bytes / 2, static_cast<std::byte>(number));
  return block;
}

inline void expect_equal(const tier::StoredBlock& got, const tier::StoredBlock& expected) {
  EXPECT_EQ(got.key, expected.key);
  EXPECT_EQ(got.parent, expected.parent);
  EXPECT_EQ(got.tokens, expected.tokens);
  EXPECT_EQ(got.groups, expected.groups);
}

inline std::vector<std::filesystem::path> files_below(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) files.push_back(entry.path());
  }
  return files;
}

/// Turns over a bit of a byte of the file.
inline void damage(const std::filesystem::path& path, uint64_t at) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(static_cast<std::streamoff>(at));
  const auto byte = static_cast<char>(file.get() ^ 4);
  file.seekp(static_cast<std::streamoff>(at));
  file.put(byte);
}

}  // namespace penstock::testing
