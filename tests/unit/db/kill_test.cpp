// A process that writes is killed at any moment; what it had been told was done must be there.
#include <csignal>
#include <random>
#include <set>
#include <thread>

#include <sys/wait.h>

#include "unit/db/database_fixture.h"

namespace penstock::db {
namespace {

using testing::insert;
using testing::numbers;

/// Inserts numbers from `first` on, several at a time, and says each over the pipe once it is safe.
[[noreturn]] void write_numbers(const std::filesystem::path& file, int64_t first, int fd) {
  Database database(file, numbers());
  for (int64_t value = first;; ++value) {
    database.submit(
        [value](Connection& connection) -> Database::Reply {
          insert(connection, value);
          return nullptr;
        },
        [](const base::Error&) { ::_exit(3); });
    std::promise<void> safe;
    database.submit(
        [&](Connection& connection) -> Database::Reply {
          insert(connection, -value - 1);
          return [&safe] { safe.set_value(); };
        },
        [](const base::Error&) { ::_exit(3); });
    safe.get_future().wait();
    if (::write(fd, &value, sizeof(value)) != sizeof(value)) ::_exit(4);
  }
}

TEST(Kill, what_was_told_to_be_done_survives) {
  const testing::TemporaryFolder folder;
  const auto file = folder.path() / "a.db";
  std::mt19937 random(7);
  int64_t last = -1;
  for (int round = 0; round < 8; ++round) {
    int fds[2];
    ASSERT_EQ(::pipe(fds), 0);
    const pid_t child = ::fork();
    if (child == 0) write_numbers(file, last + 1, fds[1]);
    ::close(fds[1]);
    int64_t told = -1;
    for (int i = 0; i < 3; ++i) ASSERT_EQ(::read(fds[0], &told, sizeof(told)), ssize_t{sizeof(told)});
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 20000));
    ::kill(child, SIGKILL);
    int status = 0;
    ::waitpid(child, &status, 0);
    ASSERT_TRUE(WIFSIGNALED(status)) << status;
    while (::read(fds[0], &told, sizeof(told)) == sizeof(told)) {
    }
    ::close(fds[0]);
    Database database(file, numbers());
    std::set<int64_t> there;
    ASSERT_FALSE(testing::done(database, [&](Connection& connection) {
      for (Statement rows = connection.query("SELECT value FROM numbers"); rows.step();)
        there.insert(rows.integer(0));
    }));
    for (int64_t value = 0; value <= told; ++value) {
      EXPECT_TRUE(there.contains(value)) << value << " of " << told;
      EXPECT_TRUE(there.contains(-value - 1)) << value << " of " << told;
    }
    last = *there.rbegin();
  }
}

}  // namespace
}  // namespace penstock::db
