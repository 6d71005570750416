#include "pool/cgroup.h"

#include <fstream>
#include <string>

#include <gtest/gtest.h>
#include <unistd.h>

namespace penstock::pool {
namespace {

namespace fs = std::filesystem;

/// A folder that looks like /sys/fs/cgroup, and a membership file.
class CgroupTest : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = fs::temp_directory_path() / ("penstock-cgroup-" + std::to_string(::getpid()) + "-" +
                                         ::testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::create_directories(root_);
  }
  void TearDown() override { fs::remove_all(root_); }

  void write(const std::string& path, const std::string& text) const {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
  }
  CgroupMemory read() const { return cgroup_memory({root_ / "fs", root_ / "membership"}); }

  fs::path root_;
};

TEST_F(CgroupTest, NoGroupHasNoLimit) {
  EXPECT_FALSE(read().limit_bytes);
}

TEST_F(CgroupTest, VersionTwo) {
  write("membership", "0::/user/job\n");
  write("fs/user/job/memory.max", "1000000\n");
  write("fs/user/job/memory.current", "700000\n");
  write("fs/user/job/memory.stat", "anon 1\nfile 300000\ninactive_file 250000\n");
  const CgroupMemory memory = read();
  EXPECT_EQ(memory.limit_bytes, 1000000u);
  EXPECT_EQ(memory.used_bytes, 700000u);
  EXPECT_EQ(memory.available_bytes(), 550000u);  // pages of files that were read once go first
}

TEST_F(CgroupTest, VersionTwoMaxIsNoLimit) {
  write("membership", "0::/job\n");
  write("fs/job/memory.max", "max\n");
  write("fs/job/memory.current", "700000\n");
  EXPECT_FALSE(read().limit_bytes);
}

TEST_F(CgroupTest, AGroupAboveMayLeaveLess) {
  write("membership", "0::/user/job\n");
  write("fs/user/job/memory.max", "1000\n");
  write("fs/user/job/memory.current", "100\n");
  write("fs/user/memory.max", "5000\n");
  write("fs/user/memory.current", "4900\n");
  const CgroupMemory memory = read();
  EXPECT_EQ(memory.limit_bytes, 5000u);
  EXPECT_EQ(memory.available_bytes(), 100u);
}

TEST_F(CgroupTest, InsideAContainerOnlyTheTopIsThere) {
  write("membership", "0::/system/container-1234\n");
  write("fs/memory.max", "2048\n");
  write("fs/memory.current", "48\n");
  EXPECT_EQ(read().limit_bytes, 2048u);
  EXPECT_EQ(read().available_bytes(), 2000u);
}

TEST_F(CgroupTest, APathOutOfTheNamespaceMeansTheTop) {
  write("membership", "0::/../other\n");
  write("fs/memory.max", "2048\n");
  write("other/memory.max", "1\n");
  EXPECT_EQ(read().limit_bytes, 2048u);
}

TEST_F(CgroupTest, VersionOne) {
  write("membership", "9:cpu,cpuacct:/job\n4:memory:/job\n0::/\n");
  write("fs/memory/job/memory.limit_in_bytes", "1000000\n");
  write("fs/memory/job/memory.usage_in_bytes", "800000\n");
  write("fs/memory/job/memory.stat", "inactive_file 5\ntotal_inactive_file 100000\n");
  const CgroupMemory memory = read();
  EXPECT_EQ(memory.limit_bytes, 1000000u);
  EXPECT_EQ(memory.available_bytes(), 300000u);
}

TEST_F(CgroupTest, VersionOneWritesNoLimitAsANumber) {
  write("membership", "4:memory:/job\n");
  write("fs/memory/job/memory.limit_in_bytes", "9223372036854771712\n");
  write("fs/memory/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_FALSE(read().limit_bytes);
}

TEST_F(CgroupTest, MoreUsedThanAllowedLeavesNothing) {
  write("membership", "0::/\n");
  write("fs/memory.max", "1000\n");
  write("fs/memory.current", "1200\n");
  write("fs/memory.stat", "inactive_file 100\n");
  EXPECT_EQ(read().available_bytes(), 0u);
}

}  // namespace
}  // namespace penstock::pool
