#include "store/hub_cache.h"

#include <future>

#include <gmock/gmock.h>

#include "base/error.h"
#include "unit/store/scratch_folder.h"

namespace penstock::store {
namespace {

namespace fs = std::filesystem;
const std::string kOne(40, '1'), kTwo(40, '2');

class HubCacheTest : public ScratchFolder {
 protected:
  void add(const std::string& repo, const std::string& commit, const std::string& file,
           const std::string& etag, size_t bytes) {
    write(fs::path("models--" + repo.substr(0, repo.find('/')) + "--" + repo.substr(repo.find('/') + 1)) /
              "blobs" / etag,
          std::string(bytes, 'x'));
    cache_.link(repo, commit, file, etag);
  }
  HubCache cache_{root_};
};

TEST_F(HubCacheTest, LinksAreRelativeAndDeepFilesReachTheirBlob) {
  add("o/n", kOne, "a/b/c.json", "e1", 5);
  const fs::path link = root_ / "models--o--n/snapshots" / kOne / "a/b/c.json";
  EXPECT_EQ(fs::read_symlink(link), "../../../../blobs/e1");
  EXPECT_EQ(fs::file_size(link), 5u);
  add("o/n", kOne, "d.json", "e1", 5);
  EXPECT_EQ(fs::read_symlink(link.parent_path().parent_path().parent_path() / "d.json"), "../../blobs/e1");
}

TEST_F(HubCacheTest, FindsByRefAndByCommit) {
  add("o/n", kOne, "f", "e1", 1);
  EXPECT_FALSE(cache_.find("o/n"));
  EXPECT_EQ(cache_.find("o/n", kOne)->commit, kOne);
  cache_.write_ref("o/n", "main", kOne);
  EXPECT_EQ(cache_.find("o/n")->folder, root_ / "models--o--n/snapshots" / kOne);
  cache_.write_ref("o/n", "refs/pr/1", kOne);
  EXPECT_EQ(cache_.find("o/n", "refs/pr/1")->commit, kOne);
  EXPECT_FALSE(cache_.find("o/n", kTwo));
  EXPECT_FALSE(cache_.find("o/n", "../../x"));
  EXPECT_FALSE(cache_.find("o/../n"));
}

TEST_F(HubCacheTest, ML_18_SizeCountsEachBlobOnce) {
  add("o/n", kOne, "f", "e1", 1000);
  cache_.link("o/n", kTwo, "f", "e1");
  cache_.link("o/n", kTwo, "g", "e1");
  const auto repos = cache_.list();
  ASSERT_EQ(repos.size(), 1u);
  EXPECT_EQ(repos[0].size_bytes, 1000u);
  EXPECT_EQ(repos[0].snapshots.size(), 2u);
}

TEST_F(HubCacheTest, ListsModelsOnlyAndUnfinishedOnes) {
  write("datasets--o--d/blobs/x", "x");
  write("models--o--n/blobs/e2.incomplete", "xx");
  const auto repos = cache_.list();
  ASSERT_EQ(repos.size(), 1u);
  EXPECT_EQ(repos[0].repo, "o/n");
  EXPECT_EQ(repos[0].unfinished.size(), 1u);
}

TEST_F(HubCacheTest, RemovesRepositoriesWithTheirLocks) {
  add("o/n", kOne, "f", "e1", 10);
  add("o/m", kOne, "f", "e1", 20);
  { const BlobLock lock(cache_, "o/n", "e1", nullptr); }
  EXPECT_TRUE(fs::exists(root_ / ".locks/models--o--n/e1.lock"));
  EXPECT_EQ(cache_.remove("o/n"), 10u);
  EXPECT_FALSE(fs::exists(root_ / "models--o--n"));
  EXPECT_FALSE(fs::exists(root_ / ".locks/models--o--n"));
  EXPECT_TRUE(fs::exists(root_ / "models--o--m"));
  EXPECT_THROW(cache_.remove("o/n"), base::Error);
  EXPECT_THROW(cache_.remove(".."), base::Error);
  EXPECT_THROW(cache_.remove("../models--o--m"), base::Error);
}

TEST_F(HubCacheTest, ASharedBlobStaysUntilItsLastLinkGoes) {
  add("o/n", kOne, "f", "e1", 10);
  add("o/n", kOne, "other", "e2", 5);
  cache_.link("o/n", kTwo, "f", "e1");
  EXPECT_EQ(cache_.remove_file(*cache_.find("o/n", kOne), "f"), 0u);
  EXPECT_TRUE(fs::exists(root_ / "models--o--n/blobs/e1"));
  EXPECT_EQ(cache_.remove_file(*cache_.find("o/n", kTwo), "f"), 10u);
  EXPECT_FALSE(fs::exists(root_ / "models--o--n/blobs/e1"));
  EXPECT_EQ(cache_.remove_file(*cache_.find("o/n", kOne), "other"), 5u);
  EXPECT_FALSE(fs::exists(root_ / "models--o--n"));
}

TEST_F(HubCacheTest, RefusesNamesThatLeaveTheFolder) {
  EXPECT_THROW(cache_.link("o/n", kOne, "../../../x", "e1"), base::Error);
  EXPECT_THROW(cache_.link("o/n", kOne, "f", "../e1"), base::Error);
  for (const char* bad : {"", "/a", "a//b", "a/", "./a", "a/..", "a\\b"})
    EXPECT_FALSE(is_safe_file(bad)) << bad;
  EXPECT_TRUE(is_safe_file("a/b..c.json"));
}

TEST_F(HubCacheTest, ALockIsHeldAgainstOthersAndItsWaitCanBeStopped) {
  const BlobLock held(cache_, "o/n", "e1", nullptr);
  std::atomic<bool> stop = false;
  auto waiting = std::async(std::launch::async, [&] { const BlobLock second(cache_, "o/n", "e1", &stop); });
  EXPECT_EQ(waiting.wait_for(std::chrono::milliseconds(80)), std::future_status::timeout);
  stop = true;
  EXPECT_THROW(waiting.get(), base::Error);
}

TEST(IsRepoId, FollowsTheHub) {
  for (const char* good : {"gpt2", "o/n", "Qwen/Qwen2.5-0.5B", "a_b/c.d-e"})
    EXPECT_TRUE(is_repo_id(good)) << good;
  for (const char* bad :
       {"", "/n", "o/", "o/n/m", "o/..", "o/a--b", "o/-a", "o/a.", "o/a b", "o/n.git", "~/n"}) {
    EXPECT_FALSE(is_repo_id(bad)) << bad;
  }
}

}  // namespace
}  // namespace penstock::store
