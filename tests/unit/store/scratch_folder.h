// A folder of its own for one test, removed after it. Not shared between threads.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>

#include <gtest/gtest.h>
#include <unistd.h>

namespace penstock::store {

class ScratchFolder : public ::testing::Test {
 protected:
  ScratchFolder() {
    const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
    root_ = std::filesystem::path(::testing::TempDir()) /
            ("penstock_" + std::to_string(getpid()) + "_" + info->test_suite_name() + "_" + info->name());
    std::filesystem::create_directories(root_);
  }
  ~ScratchFolder() override { std::filesystem::remove_all(root_); }

  std::filesystem::path write(const std::filesystem::path& name, const std::string& text) {
    const auto path = root_ / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << text;
    return path;
  }

  std::filesystem::path root_;
};

}  // namespace penstock::store
