#include "db/database.h"

#include <exception>
#include <limits>
#include <utility>

#include "base/log.h"

namespace penstock::db {
namespace {

using base::Code;
using base::Error;

/// Most pieces of work in one commit: what waits together goes to the device together.
constexpr size_t kGroup = 64;

/// An error of what was thrown last.
Error current_error() {
  try {
    throw;
  } catch (const Error& error) {
    return error;
  } catch (const std::exception& error) {
    return {Code::kInternal, std::string("[db.work] expected it to be done; got ") + error.what()};
  }
}

void call(const Database::Reply& reply) {
  try {
    if (reply) reply();
  } catch (...) {
    base::log::error("an answer of the database's thread threw: {}", current_error().text());
  }
}

}  // namespace

Database::Database(std::filesystem::path file, std::vector<Schema> schemas)
    : file_(std::move(file)), schemas_(std::move(schemas)), queue_(std::numeric_limits<size_t>::max()) {
  thread_ = std::thread([this] { run(); });
}

Database::~Database() {
  stop();
}

void Database::stop() {
  queue_.close();
  if (thread_.joinable()) thread_.join();
}

bool Database::exists() const {
  std::error_code error;
  return std::filesystem::exists(file_, error);
}

void Database::submit(Work work, Fail fail) {
  Task task{std::move(work), fail};
  if (queue_.push_always(std::move(task))) return;
  fail(Error(Code::kUnavailable, "[db.submit] expected a running server; got one that stops"));
}

void Database::run() {
  while (auto task = queue_.pop()) {
    std::vector<Task> tasks;
    do {
      tasks.push_back(std::move(*task));
    } while (tasks.size() < kGroup && (task = queue_.try_pop()));
    run_group(tasks);
  }
  connection_.reset();
}

void Database::run_group(std::vector<Task>& tasks) {
  std::vector<Reply> replies;
  try {
    open();
    replies = commit(tasks);
  } catch (...) {
    const Error error = current_error();
    base::log::error("the database failed: {}", error.text());
    replies.clear();
    for (const Task& task : tasks) replies.push_back([&task, error] { task.fail(error); });
  }
  for (const Reply& reply : replies) call(reply);
}

std::vector<Database::Reply> Database::commit(std::vector<Task>& tasks) {
  std::vector<Reply> replies;
  Transaction transaction(*connection_);
  for (Task& task : tasks) {
    try {
      Savepoint savepoint(*connection_);
      Reply reply = task.work(*connection_);
      savepoint.release();
      replies.push_back(std::move(reply));
    } catch (...) {
      replies.push_back([&task, error = current_error()] { task.fail(error); });
    }
  }
  transaction.commit();
  return replies;
}

void Database::open() {
  if (connection_ != nullptr) return;
  const std::filesystem::path folder = file_.parent_path();
  std::error_code error;
  if (std::filesystem::create_directories(folder, error))
    std::filesystem::permissions(folder, std::filesystem::perms::owner_all, error);
  if (error) {
    throw Error(Code::kIo,
                "[db.open] expected to make the folder " + folder.string() + "; got " + error.message());
  }
  auto connection = std::make_unique<Connection>(file_);
  std::vector<Migration> migrations;
  for (const Schema& schema : schemas_)
    migrations.insert(migrations.end(), schema.migrations.begin(), schema.migrations.end());
  migrate(*connection, migrations);
  Transaction transaction(*connection);
  for (const Schema& schema : schemas_)
    if (schema.opened) schema.opened(*connection);
  transaction.commit();
  connection_ = std::move(connection);
}

}  // namespace penstock::db
