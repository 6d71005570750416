// A SQLite file with a thread of its own, opened at the first work for it. Thread-safe: any thread may
// submit; work, replies and failures run on the database's thread, one at a time, in the order of submission,
// and must not wait for other work of it.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "base/bounded_queue.h"
#include "base/error.h"
#include "db/connection.h"
#include "db/migration.h"

namespace penstock::db {

/// What one folder keeps in the file.
struct Schema {
  std::span<const Migration> migrations;    // outlive the database
  std::function<void(Connection&)> opened;  // may be null; once, in a transaction, after the file was opened
};

class Database {
 public:
  /// Told after the work's changes are safe: what it says is then true after a crash, too.
  using Reply = std::function<void()>;
  using Work = std::function<Reply(Connection&)>;
  using Fail = std::function<void(const base::Error&)>;

  /// Makes the file's folder when the file is opened, for this user alone.
  Database(std::filesystem::path file, std::vector<Schema> schemas);
  ~Database();  // stop(); not on its own thread
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  /// Exactly one of the work's reply (may be null) and `fail` is called; what the work changed is undone
  /// where it throws. After stop() `fail` is called at once, on this thread.
  void submit(Work work, Fail fail);

  /// Whether the file is there: whether an earlier run left something.
  bool exists() const;
  const std::filesystem::path& file() const { return file_; }

  /// Does what was submitted, closes the file, ends the thread. Idempotent; not on its own thread.
  void stop();

 private:
  struct Task {
    Work work;
    Fail fail;
  };
  void run();
  void run_group(std::vector<Task>& tasks);
  std::vector<Reply> commit(std::vector<Task>& tasks);
  void open();

  const std::filesystem::path file_;
  const std::vector<Schema> schemas_;
  base::BoundedQueue<Task> queue_;
  std::unique_ptr<Connection> connection_;  // of the thread
  std::thread thread_;
};

}  // namespace penstock::db
