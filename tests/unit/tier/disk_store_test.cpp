#include "tier/disk_store.h"

#include <future>

#include "base/error.h"
#include "unit/tier/tier_fixture.h"

namespace penstock::tier {
namespace {

using cache::PrefixKey;
using testing::block_of;
using testing::kModel;
using testing::TemporaryFolder;

DiskOptions options_of(const TemporaryFolder& folder, uint64_t max_bytes = 1 << 20) {
  DiskOptions options;
  options.directory = folder.path();
  options.max_bytes = max_bytes;
  options.free_bytes = [](const auto&) { return uint64_t{1} << 40; };
  return options;
}

std::vector<StoredBlock> read(DiskStore& store, std::vector<PrefixKey> keys, uint64_t max_bytes = 1 << 30) {
  std::promise<std::vector<StoredBlock>> promise;
  store.read(kModel, std::move(keys), max_bytes,
             [&](std::vector<StoredBlock> blocks) { promise.set_value(std::move(blocks)); });
  return promise.get_future().get();
}

std::filesystem::path file_of(const TemporaryFolder& folder, PrefixKey key) {
  for (const auto& path : testing::files_below(folder.path() / "blocks")) {
    if (path.stem() == hex(key)) return path;
  }
  return {};
}

TEST(DiskStore, WritesBehindAndReads) {
  const TemporaryFolder folder;
  DiskStore store(options_of(folder));
  std::vector<PrefixKey> keys;
  for (int32_t i = 0; i < 5; ++i) {
    keys.push_back(block_of(i).key);
    store.write(kModel, block_of(i));
    EXPECT_EQ(store.groups({kModel, keys.back()}), block_of(i).mask()) << "also while it waits to be written";
  }
  EXPECT_EQ(store.groups({kModel, block_of(9).key}), 0u);
  EXPECT_EQ(store.groups({std::string(32, 'b'), keys[0]}), 0u) << "PC-07: another model's";
  store.wait_idle();
  const auto blocks = read(store, keys);
  ASSERT_EQ(blocks.size(), 5u);
  for (int32_t i = 0; i < 5; ++i) testing::expect_equal(blocks[static_cast<size_t>(i)], block_of(i));
  EXPECT_EQ(store.stats().written, 5u);
  EXPECT_EQ(store.stats().read, 5u);
  EXPECT_EQ(read(store, keys, 1500).size(), 1u) << "bytes on their way are bounded";
}

TEST(DiskStore, IsFoundAgainAfterARestart) {
  const TemporaryFolder folder;
  { DiskStore(options_of(folder)).write(kModel, block_of(4)); }
  DiskStore store(options_of(folder));
  store.wait_idle();
  EXPECT_EQ(store.groups({kModel, block_of(4).key}), 3u);
  EXPECT_EQ(store.stats().blocks, 1u);
  ASSERT_EQ(read(store, {block_of(4).key}).size(), 1u);
}

/// A damaged body shows when it is read, a damaged header at the start; neither is served, both are kept.
TEST(DiskStore, DamageIsSetAside) {
  const TemporaryFolder folder;
  {
    DiskStore store(options_of(folder));
    for (int32_t i = 0; i < 3; ++i) store.write(kModel, block_of(i));
  }
  testing::damage(file_of(folder, block_of(0).key), 20);
  const auto second = file_of(folder, block_of(1).key);
  testing::damage(second, std::filesystem::file_size(second) - 1);
  std::ofstream(folder.path() / "blocks" / "x.partial") << "of a process that was killed";
  DiskStore store(options_of(folder));
  store.wait_idle();
  EXPECT_EQ(store.stats().blocks, 2u);
  EXPECT_EQ(store.stats().corrupt, 1u);
  EXPECT_TRUE(read(store, {block_of(1).key, block_of(2).key}).empty());
  EXPECT_EQ(store.groups({kModel, block_of(1).key}), 0u);
  EXPECT_EQ(read(store, {block_of(2).key}).size(), 1u);
  EXPECT_EQ(store.stats().corrupt, 2u);
  EXPECT_EQ(testing::files_below(folder.path() / "damaged").size(), 2u);
  EXPECT_EQ(testing::files_below(folder.path() / "blocks").size(), 1u);
  store.write(kModel, block_of(1));
  store.wait_idle();
  EXPECT_EQ(read(store, {block_of(1).key}).size(), 1u) << "computed again";
}

TEST(DiskStore, KeepsWithinItsBytes) {
  const TemporaryFolder folder;
  constexpr uint64_t kMax = 40000;
  DiskStore store(options_of(folder, kMax));
  for (int32_t i = 0; i < 30; ++i) {
    store.write(kModel, block_of(1 + 2 * i));
    store.wait_idle();
    if (i > 2) {
      EXPECT_EQ(read(store, {block_of(1).key}).size(), 1u) << "what is used stays";
    }
    EXPECT_LE(store.stats().bytes, kMax);
  }
  EXPECT_GT(store.stats().evicted, 0u);
  uint64_t bytes = 0;
  for (const auto& path : testing::files_below(folder.path() / "blocks"))
    bytes += std::filesystem::file_size(path);
  EXPECT_EQ(bytes, store.stats().bytes);
}

TEST(DiskStore, KeepsWhatMustStayFree) {
  const TemporaryFolder folder;
  DiskOptions options = options_of(folder);
  options.min_free_bytes = 100000;
  std::atomic<uint64_t> free = 1 << 20;
  options.free_bytes = [&](const auto&) { return free.load(); };
  DiskStore store(options);
  store.write(kModel, block_of(1));
  store.wait_idle();
  free = 100500;
  store.write(kModel, block_of(3));
  store.wait_idle();
  EXPECT_EQ(store.stats().blocks, 0u) << "evicting did not help, so nothing was written";
  EXPECT_EQ(store.stats().dropped, 1u);
}

TEST(DiskStore, PinnedBlocksStay) {
  const TemporaryFolder folder;
  DiskStore store(options_of(folder, 40000));
  const PrefixKey kept = block_of(1).key, expired = block_of(3).key;
  const auto now = std::chrono::system_clock::now();
  store.pin(kModel, std::span(&kept, 1), now + std::chrono::hours(1));
  store.pin(kModel, std::span(&expired, 1), now - std::chrono::hours(1));
  for (int32_t i = 0; i < 60; ++i) {
    store.write(kModel, block_of(1 + 2 * i));
    store.wait_idle();
  }
  EXPECT_NE(store.groups({kModel, kept}), 0u);
  EXPECT_EQ(store.groups({kModel, expired}), 0u);
  store.clear();
  store.wait_idle();
  EXPECT_EQ(store.stats().blocks, 1u);
}

TEST(DiskStore, EraseRemovesTheFile) {
  const TemporaryFolder folder;
  DiskStore store(options_of(folder));
  store.write(kModel, block_of(1));
  store.erase(kModel, {block_of(1).key, block_of(3).key});
  store.wait_idle();
  EXPECT_TRUE(testing::files_below(folder.path() / "blocks").empty());
  EXPECT_EQ(store.stats().bytes, 0u);
}

TEST(DiskStore, SyncComesBehindWhatWasToBeWritten) {
  const TemporaryFolder folder;
  DiskStore store(options_of(folder));
  std::vector<PrefixKey> keys;
  for (int32_t i = 0; i < 4; ++i) keys.push_back(block_of(i).key);
  for (int32_t i = 0; i < 3; ++i) store.write(kModel, block_of(i));
  std::promise<std::vector<PrefixKey>> promise;
  store.sync(kModel, keys, [&](std::vector<PrefixKey> safe) { promise.set_value(std::move(safe)); });
  EXPECT_EQ(promise.get_future().get(), std::vector<PrefixKey>(keys.begin(), keys.begin() + 3));
}

TEST(DiskStore, AFullQueueHasNoRoomUntilItIsWritten) {
  const TemporaryFolder folder;
  DiskOptions options = options_of(folder);
  options.max_queued_bytes = 1;
  std::promise<void> opened;
  const auto gate = opened.get_future().share();
  options.free_bytes = [gate](const auto&) {
    gate.wait();
    return uint64_t{1} << 40;
  };
  DiskStore store(options);
  EXPECT_TRUE(store.has_room());
  store.write(kModel, block_of(1));
  EXPECT_FALSE(store.has_room());
  EXPECT_FALSE(store.wait_for_room(std::chrono::steady_clock::now() + std::chrono::milliseconds(5)));
  std::promise<void> told;
  store.when_room([&] { told.set_value(); });
  opened.set_value();
  told.get_future().get();
  EXPECT_TRUE(store.has_room());
}

TEST(DiskStore, TheFolderIsOfOneProcess) {
  const TemporaryFolder folder;
  const DiskStore store(options_of(folder));
  EXPECT_THROW(DiskStore(options_of(folder)), base::Error);
}

}  // namespace
}  // namespace penstock::tier
