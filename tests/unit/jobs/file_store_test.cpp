#include "jobs/file_store.h"

#include <fstream>

#include "base/unix_time.h"
#include "unit/jobs/jobs_fixture.h"

namespace penstock::jobs {
namespace {

using base::Code;
using base::Error;
using db::Database;
using db::testing::TemporaryFolder;
using testing::add;
using testing::answer_of;
using testing::read;

/// A store over a folder; one after another keeps what the first had.
struct Stored {
  explicit Stored(const std::filesystem::path& folder)
      : file(folder / "a.db"), database(file, testing::schemas(file)), files(database) {}

  std::vector<StoredFile> list(const std::string& purpose = "") {
    return answer_of<std::vector<StoredFile>>([&](auto on) { files.list(purpose, on); });
  }
  void erase(const std::string& id) {
    std::promise<std::optional<Error>> done;
    files.erase(id, [&done](std::optional<Error> error) { done.set_value(std::move(error)); });
    if (const auto error = done.get_future().get()) throw *error;
  }

  const std::filesystem::path file;
  Database database;
  FileStore files;
};

size_t bodies_in(const std::filesystem::path& folder) {
  size_t n = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder / "files"))
    n += entry.is_regular_file();
  return n;
}

TEST(FileStore, files_come_back_whole_after_a_restart) {
  const TemporaryFolder folder;
  const std::string bytes("a\0b\n\xff", 5);
  std::string id;
  {
    Stored stored(folder.path());
    const StoredFile file = add(stored.files, bytes);
    id = file.id;
    EXPECT_TRUE(id.starts_with("file-"));
    EXPECT_EQ(file.bytes, 5);
    EXPECT_GT(file.created, 0);
  }
  Stored stored(folder.path());
  const FileBody body = read(stored.files, id);
  EXPECT_EQ(body.bytes, bytes);
  EXPECT_EQ(body.file.name, "a/../name.txt") << "it is a name, and no path of anything";
  EXPECT_TRUE(std::filesystem::exists(folder.path() / "files" / id));
}

TEST(FileStore, lists_by_purpose_in_the_order_of_uploads) {
  const TemporaryFolder folder;
  Stored stored(folder.path());
  const auto a = add(stored.files, "a"), b = add(stored.files, "b", "user_data"), c = add(stored.files, "c");
  const auto all = stored.list();
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[0].id, a.id);
  EXPECT_EQ(all[2].id, c.id);
  ASSERT_EQ(stored.list("user_data").size(), 1u);
  EXPECT_EQ(stored.list("user_data")[0].id, b.id);
}

TEST(FileStore, an_erased_file_is_gone_with_its_body) {
  const TemporaryFolder folder;
  Stored stored(folder.path());
  const std::string id = add(stored.files, "a").id;
  stored.erase(id);
  EXPECT_EQ(bodies_in(folder.path()), 0u);
  EXPECT_THROW(stored.erase(id), Error);
  EXPECT_THROW(read(stored.files, id), Error);
}

TEST(FileStore, no_id_is_a_path) {
  const TemporaryFolder folder;
  Stored stored(folder.path());
  add(stored.files, "a");
  std::ofstream(folder.path() / "secret") << "secret";
  for (const char* id : {"../secret", "..", "", "/etc/passwd", "files/../../secret"}) {
    EXPECT_THROW(read(stored.files, id), Error) << id;
    EXPECT_THROW(stored.erase(id), Error) << id;
  }
  EXPECT_TRUE(std::filesystem::exists(folder.path() / "secret"));
}

TEST(FileStore, an_expired_file_is_not_there) {
  const TemporaryFolder folder;
  std::string id, kept;
  {
    Stored stored(folder.path());
    id = add(stored.files, "a", "batch", base::unix_seconds() - 1).id;
    kept = add(stored.files, "b", "batch", base::unix_seconds() + 1000).id;
    EXPECT_THROW(read(stored.files, id), Error);
    EXPECT_EQ(stored.list().size(), 1u);
  }
  Stored stored(folder.path());
  EXPECT_EQ(read(stored.files, kept).bytes, "b");
  EXPECT_EQ(bodies_in(folder.path()), 1u) << "and its body goes when the next server opens the folder";
}

TEST(FileStore, bodies_that_no_row_knows_are_removed) {
  const TemporaryFolder folder;
  std::string id;
  {
    Stored stored(folder.path());
    id = add(stored.files, "a").id;
  }
  std::ofstream(folder.path() / "files" / "file-orphan") << "x";
  std::ofstream(folder.path() / "files" / "file-half.partial") << "x";
  Stored stored(folder.path());
  EXPECT_EQ(read(stored.files, id).bytes, "a");
  EXPECT_EQ(bodies_in(folder.path()), 1u);
}

TEST(FileStore, a_body_that_was_cut_is_not_served) {
  const TemporaryFolder folder;
  Stored stored(folder.path());
  const std::string id = add(stored.files, "abc").id;
  std::filesystem::resize_file(folder.path() / "files" / id, 2);
  try {
    read(stored.files, id);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kCorrupt);
  }
}

}  // namespace
}  // namespace penstock::jobs
