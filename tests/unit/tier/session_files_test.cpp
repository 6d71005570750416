#include "tier/session_files.h"

#include "unit/tier/tier_fixture.h"

namespace penstock::tier {
namespace {

using testing::TemporaryFolder;

SessionRecord record_of(const std::string& id) {
  return {id, "model", testing::kModel, 64, 7, {1, 2, 3, 70000}, 1000, 2000, 3000, true};
}

TEST(SessionFiles, ComeBackAsTheyWere) {
  const TemporaryFolder folder;
  const SessionFiles files(folder.path());
  SessionRecord record = record_of("../a b/ü");
  files.write(record);
  record.used_ms = 5;
  files.write(record);
  files.write(record_of("other"));
  files.erase("other");
  files.erase("never there");
  ASSERT_EQ(files.read_all().size(), 1u);
  EXPECT_EQ(files.read_all().front(), record);
}

TEST(SessionFiles, DamageIsSetAside) {
  const TemporaryFolder folder;
  const SessionFiles files(folder.path());
  files.write(record_of("a"));
  const auto path = testing::files_below(folder.path()).front();
  const uint64_t size = std::filesystem::file_size(path);
  testing::damage(path, size / 2);
  files.write(record_of("b"));
  const auto records = files.read_all();
  ASSERT_EQ(records.size(), 1u);
  EXPECT_EQ(records.front().id, "b");
  EXPECT_FALSE(std::filesystem::exists(path));
}

}  // namespace
}  // namespace penstock::tier
