#include "db/database.h"

#include <sys/stat.h>

#include "unit/db/database_fixture.h"

namespace penstock::db {
namespace {

using base::Code;
using base::Error;
using testing::count;
using testing::done;
using testing::insert;
using testing::numbers;
using testing::TemporaryFolder;

TEST(Connection, values_come_back_as_they_were) {
  const TemporaryFolder folder;
  Connection connection(folder.path() / "a.db");
  connection.script("CREATE TABLE t (n INTEGER, s TEXT, e TEXT, x TEXT)");
  const std::string bytes("a\0b\xf0\x9f\x98\x80", 7);
  EXPECT_EQ(connection.run("INSERT INTO t VALUES (?, ?, ?, ?)", int64_t{1} << 62, bytes, "", std::nullopt),
            1);
  Statement row = connection.query("SELECT n, s, e, x, e IS NULL, x IS NULL FROM t WHERE s = ?", bytes);
  ASSERT_TRUE(row.step());
  EXPECT_EQ(row.integer(0), int64_t{1} << 62);
  EXPECT_EQ(row.text(1), bytes);
  EXPECT_EQ(row.text(2), "");
  EXPECT_EQ(row.text(3), "");
  EXPECT_EQ(row.integer(4), 0) << "an empty text is no null";
  EXPECT_EQ(row.integer(5), 1);
  EXPECT_FALSE(row.step());
  EXPECT_THROW(connection.query("SELECT nothing FROM t"), Error);
}

TEST(Database, is_made_when_it_is_first_used) {
  const TemporaryFolder folder;
  const auto file = folder.path() / "state" / "a.db";
  Database database(file, numbers());
  EXPECT_FALSE(database.exists());
  EXPECT_FALSE(std::filesystem::exists(file.parent_path()));
  EXPECT_EQ(count(database), 0);
  EXPECT_TRUE(database.exists());
  struct stat status = {};
  ASSERT_EQ(::stat(file.parent_path().c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0700u) << "what clients said is for this user alone";
}

TEST(Database, undoes_the_work_that_throws_and_keeps_the_rest) {
  const TemporaryFolder folder;
  Database database(folder.path() / "a.db", numbers());
  std::promise<void> begun, go;
  database.submit(
      [&](Connection&) -> Database::Reply {
        begun.set_value();
        go.get_future().wait();
        return nullptr;
      },
      [](const Error&) {});
  begun.get_future().wait();  // what follows waits together, so that it is one group
  std::vector<std::string> told;
  for (int i = 0; i < 3; ++i) {
    database.submit(
        [&told, i](Connection& connection) -> Database::Reply {
          insert(connection, i);
          if (i == 1) throw Error(Code::kNotFound, "[x.y] expected one; got none");
          return [&told, i] { told.push_back("done " + std::to_string(i)); };
        },
        [&told](const Error& error) { told.push_back(std::string(error.text())); });
  }
  go.set_value();
  EXPECT_EQ(count(database), 2);
  EXPECT_EQ(told, (std::vector<std::string>{"done 0", "expected one; got none", "done 2"}));
}

TEST(Database, refuses_work_after_its_end) {
  const TemporaryFolder folder;
  Database database(folder.path() / "a.db", numbers());
  EXPECT_EQ(count(database), 0);
  database.stop();
  const auto error = done(database, [](Connection&) {});
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), Code::kUnavailable);
}

TEST(Database, belongs_to_one_server) {
  const TemporaryFolder folder;
  Database first(folder.path() / "a.db", numbers());
  EXPECT_EQ(count(first), 0);
  Database second(folder.path() / "a.db", numbers());
  const auto error = done(second, [](Connection&) {});
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), Code::kUnavailable);
  EXPECT_NE(error->text().find("state_dir"), std::string_view::npos) << error->text();
  first.stop();
  EXPECT_EQ(count(second), 0) << "it tries again";
}

TEST(Database, says_what_is_wrong_with_a_file) {
  const TemporaryFolder folder;
  const auto file = folder.path() / "a.db";
  ASSERT_EQ(
      ::system(
          ("printf 'no database, but a text that is long enough for a head' > " + file.string()).c_str()),
      0);
  Database database(file, numbers());
  const auto error = done(database, [](Connection&) {});
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), Code::kCorrupt);
}

TEST(Migrations, each_is_applied_once) {
  const TemporaryFolder folder;
  const auto file = folder.path() / "a.db";
  const std::array later = {testing::kNumbers[0],
                            Migration{"numbers 2", "ALTER TABLE numbers ADD COLUMN more TEXT"}};
  {
    Database old(file, numbers());
    ASSERT_FALSE(done(old, [](Connection& connection) { insert(connection, 7); }));
  }
  for (int i = 0; i < 2; ++i) {
    Database database(file, {{later, nullptr}});
    EXPECT_EQ(count(database), 1);
    EXPECT_FALSE(done(database, [](Connection& c) { c.run("UPDATE numbers SET more = 'x'"); }));
  }
  Database old(file, numbers());
  const auto error = done(old, [](Connection&) {});
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), Code::kUnsupported);
  EXPECT_NE(error->text().find("numbers 2"), std::string_view::npos);
}

TEST(Migrations, one_that_fails_changes_nothing) {
  const TemporaryFolder folder;
  Connection connection(folder.path() / "a.db");
  const std::array bad = {
      testing::kNumbers[0],
      Migration{"bad 1", "INSERT INTO numbers VALUES (1, ''); INSERT INTO nothing VALUES (1)"}};
  EXPECT_THROW(migrate(connection, bad), Error);
  EXPECT_EQ(count(connection), 0);
  migrate(connection, testing::kNumbers);
  EXPECT_EQ(count(connection), 0) << "the first one was applied";
}

TEST(Schema, opened_runs_once_at_each_opening) {
  const TemporaryFolder folder;
  for (int64_t run = 1; run <= 2; ++run) {
    Database database(folder.path() / "a.db",
                      {{testing::kNumbers, [](Connection& c) { insert(c, count(c)); }}});
    EXPECT_EQ(count(database), run);
    EXPECT_EQ(count(database), run);
  }
}

}  // namespace
}  // namespace penstock::db
