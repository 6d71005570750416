#include "tier/block_file.h"

#include "base/error.h"
#include "base/whole_file.h"
#include "unit/tier/tier_fixture.h"

namespace penstock::tier {
namespace {

using testing::block_of;
using testing::kModel;
using testing::TemporaryFolder;

TEST(BlockFile, ComesBackAsItWas) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "a.kv";
  for (const int32_t number : {4, 5}) {
    const StoredBlock block = block_of(number);
    const uint64_t size = write_block(path, kModel, block);
    EXPECT_EQ(size, std::filesystem::file_size(path));
    testing::expect_equal(read_block(path, {kModel, block.key}), block);
    const BlockHeader header = read_header(path);
    EXPECT_EQ(header.name, (BlockName{kModel, block.key}));
    EXPECT_EQ(header.groups(), block.mask());
  }
  EXPECT_EQ(testing::files_below(folder.path()).size(), 1u) << "no partial file stays";
}

/// PC-08: no byte of a file may be another one, be missing or be added.
TEST(BlockFile, PC_08_EveryDamageIsSeen) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "a.kv";
  const StoredBlock block = block_of(2, {1, 2}, 50);
  const uint64_t size = write_block(path, kModel, block);
  for (uint64_t at = 0; at < size; ++at) {
    testing::damage(path, at);
    EXPECT_THROW(read_block(path, {kModel, block.key}), base::Error) << "byte " << at;
    testing::damage(path, at);
  }
  testing::expect_equal(read_block(path, {kModel, block.key}), block);
  for (uint64_t length = 0; length < size; ++length) {
    write_block(path, kModel, block);
    std::filesystem::resize_file(path, length);
    EXPECT_THROW(read_block(path, {kModel, block.key}), base::Error) << length << " bytes";
    EXPECT_THROW(read_header(path), base::Error) << length << " bytes";
  }
  write_block(path, kModel, block);
  std::filesystem::resize_file(path, size + 1);
  EXPECT_THROW(read_header(path), base::Error);
}

TEST(BlockFile, IsNotServedUnderAnotherName) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "a.kv";
  const StoredBlock block = block_of(2);
  write_block(path, kModel, block);
  EXPECT_THROW(read_block(path, {kModel, block_of(3).key}), base::Error);
  EXPECT_THROW(read_block(path, {std::string(32, 'b'), block.key}), base::Error);
}

TEST(BlockFile, TokensMustMakeTheKey) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "a.kv";
  StoredBlock block = block_of(2);
  block.tokens[3] += 256;  // PC-04: ids that are equal in their low byte
  write_block(path, kModel, block);
  EXPECT_THROW(read_block(path, {kModel, block.key}), base::Error);
}

TEST(BlockFile, AFileThatCannotBeWrittenLeavesNothing) {
  const TemporaryFolder folder;
  EXPECT_THROW(write_block(folder.path() / "none" / "a.kv", kModel, block_of(2)), base::Error);
  EXPECT_TRUE(testing::files_below(folder.path()).empty());
}

}  // namespace
}  // namespace penstock::tier
