// A table of numbers in a scratch folder, for the tests of db.
#pragma once

#include <array>
#include <filesystem>
#include <future>
#include <optional>
#include <string>
#include <utility>

#include <gtest/gtest.h>
#include <unistd.h>

#include "db/database.h"

namespace penstock::db::testing {

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "penstock_db_XXXXXX").string();
    EXPECT_NE(::mkdtemp(name.data()), nullptr);
    path_ = name;
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

inline constexpr std::array kNumbers = {
    Migration{"numbers 1", "CREATE TABLE numbers (value INTEGER PRIMARY KEY, name TEXT)"}};

inline std::vector<Schema> numbers() {
  return {{kNumbers, nullptr}};
}

/// Waits for the end of the work: nothing, or the error.
inline std::optional<base::Error> done(Database& database, std::function<void(Connection&)> work) {
  std::promise<std::optional<base::Error>> end;
  database.submit(
      [&](Connection& connection) -> Database::Reply {
        work(connection);
        return [&end] { end.set_value(std::nullopt); };
      },
      [&end](const base::Error& error) { end.set_value(error); });
  return end.get_future().get();
}

inline void insert(Connection& connection, int64_t value) {
  connection.run("INSERT INTO numbers (value, name) VALUES (?, ?)", value, std::to_string(value));
}

inline int64_t count(Connection& connection) {
  Statement rows = connection.query("SELECT count(*) FROM numbers");
  rows.step();
  return rows.integer(0);
}

inline int64_t count(Database& database) {
  int64_t n = -1;
  EXPECT_FALSE(done(database, [&](Connection& connection) { n = count(connection); }));
  return n;
}

}  // namespace penstock::db::testing
