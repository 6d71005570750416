// A process that writes blocks and sessions is killed at a random moment; what it had acknowledged must be
// there for the next one, and nothing that is served may be damaged.
#include <csignal>
#include <future>
#include <map>
#include <random>

#include <sys/wait.h>
#include <unistd.h>

#include "tier/session_files.h"
#include "unit/tier/tier_fixture.h"

namespace penstock::tier {
namespace {

using cache::PrefixKey;
using testing::block_of;
using testing::kModel;

constexpr int32_t kBlocks = 4;  // of a session

/// Number of the first block of a session, so that sessions share none.
int32_t first_of(int32_t session) {
  return session * kBlocks;
}

DiskOptions options_of(const std::filesystem::path& folder) {
  DiskOptions options;
  options.directory = folder;
  options.max_bytes = uint64_t{1} << 30;
  return options;
}

/// Writes sessions from `first` on and says the number of each over the pipe once it is safe. Never returns.
[[noreturn]] void write_sessions(const std::filesystem::path& folder, int32_t first, int fd) {
  DiskStore store(options_of(folder));
  const SessionFiles sessions(folder);
  for (int32_t session = first;; ++session) {
    std::vector<PrefixKey> keys;
    for (int32_t i = 0; i < kBlocks; ++i) {
      StoredBlock block = block_of(first_of(session) + i, {1, 2}, 20000);
      keys.push_back(block.key);
      store.write(kModel, std::move(block));
    }
    std::promise<size_t> safe;
    store.sync(kModel, keys, [&](std::vector<PrefixKey> done) { safe.set_value(done.size()); });
    if (safe.get_future().get() != keys.size()) ::_exit(3);
    sessions.write({std::to_string(session), "model", kModel, 8, 0, {session}, 0, 0, 0, true});
    if (::write(fd, &session, sizeof(session)) != sizeof(session)) ::_exit(4);
  }
}

/// Lets a process write so many sessions and so long, kills it, returns the last session that it said was
/// safe, or -1.
int32_t write_and_kill(const std::filesystem::path& folder, int32_t first, int32_t sessions,
                       std::chrono::microseconds after) {
  int fds[2];
  EXPECT_EQ(::pipe(fds), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::close(fds[0]);
    write_sessions(folder, first, fds[1]);
  }
  ::close(fds[1]);
  int32_t last = -1, session = 0;
  while (sessions-- > 0 && ::read(fds[0], &session, sizeof(session)) == sizeof(session)) last = session;
  ::usleep(static_cast<useconds_t>(after.count()));
  ::kill(child, SIGKILL);
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_TRUE(WIFSIGNALED(status)) << "it ended by itself: " << WEXITSTATUS(status);
  while (::read(fds[0], &session, sizeof(session)) == sizeof(session)) last = session;
  ::close(fds[0]);
  return last;
}

TEST(Kill, NothingAcknowledgedIsLostAt200RandomPoints) {
  const testing::TemporaryFolder folder;
  std::mt19937 random(11);
  int32_t next = 0, n_safe = 0;
  for (int round = 0; round < 200; ++round) {
    const auto after = std::chrono::microseconds(std::uniform_int_distribution(0, 12000)(random));
    const int32_t last = write_and_kill(folder.path(), next, round % 3, after);
    const SessionFiles sessions(folder.path());
    std::map<std::string, SessionRecord> found;
    for (SessionRecord& record : sessions.read_all()) found.emplace(record.id, std::move(record));
    DiskStore store(options_of(folder.path()));
    store.wait_idle();
    EXPECT_EQ(store.stats().corrupt, 0u) << "a block is whole under its name or not there";
    for (int32_t session = next; session <= last; ++session, ++n_safe) {
      ASSERT_TRUE(found.contains(std::to_string(session))) << "session " << session << " of " << last;
      std::vector<PrefixKey> keys;
      for (int32_t i = 0; i < kBlocks; ++i)
        keys.push_back(block_of(first_of(session) + i, {1, 2}, 20000).key);
      std::promise<std::vector<StoredBlock>> promise;
      store.read(kModel, keys, 1 << 30, [&](auto blocks) { promise.set_value(std::move(blocks)); });
      const auto blocks = promise.get_future().get();
      ASSERT_EQ(blocks.size(), static_cast<size_t>(kBlocks)) << "session " << session;
      for (int32_t i = 0; i < kBlocks; ++i) {
        testing::expect_equal(blocks[static_cast<size_t>(i)], block_of(first_of(session) + i, {1, 2}, 20000));
      }
    }
    next = std::max(next, last + 1) + 1;
    std::filesystem::remove_all(folder.path() / "blocks");
    std::filesystem::remove_all(folder.path() / "sessions");
  }
  EXPECT_GE(n_safe, 199);
}

}  // namespace
}  // namespace penstock::tier
