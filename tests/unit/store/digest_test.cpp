#include "store/digest.h"

#include "base/error.h"
#include "unit/store/scratch_folder.h"

namespace penstock::store {
namespace {

TEST(Digest, KnownValues) {
  Digest sha256(Algorithm::kSha256);
  sha256.update("a");
  sha256.update("bc");
  EXPECT_EQ(sha256.finish(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  Digest sha1(Algorithm::kSha1);
  sha1.update("abc");
  EXPECT_EQ(sha1.finish(), "a9993e364706816aba3e25717850c26c9cd0d89d");
}

TEST(DigestForEtag, GitBlobsAndLargeFiles) {
  const std::string git = "ce013625030ba8dba906f756967f9e9ca394464a";  // git hash-object of "hello\n"
  auto digest = digest_for_etag(git, 6);
  digest->update("hello\n");
  EXPECT_EQ(digest->finish(), git);
  EXPECT_NE(digest_for_etag(std::string(64, 'a'), 6), nullptr);
  EXPECT_EQ(digest_for_etag("abc-2", 6), nullptr);
  EXPECT_EQ(digest_for_etag(std::string(64, 'G'), 6), nullptr);
}

class FileDigest : public ScratchFolder {};

TEST_F(FileDigest, ReadsFilesAndStops) {
  const auto file = write("x", "abc");
  EXPECT_EQ(sha256_of_file(file), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  const std::atomic<bool> stop = true;
  EXPECT_THROW(sha256_of_file(file, &stop), base::Error);
  EXPECT_THROW(sha256_of_file(root_ / "none"), base::Error);
}

}  // namespace
}  // namespace penstock::store
