#include "db/connection.h"

#include <utility>

#include <sqlite3.h>

#include "base/error.h"
#include "base/log.h"

namespace penstock::db {
namespace {

using base::Code;
using base::Error;

constexpr int kBusyTimeoutMs = 2000;

Code code_of(int result) {
  switch (result & 0xff) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return Code::kUnavailable;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return Code::kCorrupt;
    case SQLITE_FULL:
    case SQLITE_IOERR:
    case SQLITE_CANTOPEN:
    case SQLITE_READONLY:
    case SQLITE_PERM:
      return Code::kIo;
    default:
      return Code::kInternal;
  }
}

Error error_of(sqlite3* handle, const char* what) {
  const int result = handle == nullptr ? SQLITE_NOMEM : sqlite3_extended_errcode(handle);
  const std::string why = handle == nullptr ? "no memory" : sqlite3_errmsg(handle);
  const std::string more = code_of(result) == Code::kUnavailable ? ": another server has this state_dir" : "";
  return {code_of(result),
          std::string("[db.") + what + "] expected the database to answer; got " + why + more};
}

}  // namespace

Statement::Statement(sqlite3* handle, std::string_view sql) : handle_(handle) {
  if (sqlite3_prepare_v2(handle, sql.data(), static_cast<int>(sql.size()), &statement_, nullptr) != SQLITE_OK)
    throw error_of(handle, "prepare");
}

Statement::Statement(Statement&& other) noexcept
    : handle_(other.handle_), statement_(std::exchange(other.statement_, nullptr)), next_(other.next_) {}

Statement::~Statement() {
  sqlite3_finalize(statement_);
}

void Statement::bind(int64_t value) {
  if (sqlite3_bind_int64(statement_, next_++, value) != SQLITE_OK) throw error_of(handle_, "bind");
}

void Statement::bind(std::string_view value) {
  // A null pointer would be a null.
  const char* data = value.data() == nullptr ? "" : value.data();
  if (sqlite3_bind_text64(statement_, next_++, data, value.size(), SQLITE_TRANSIENT, SQLITE_UTF8) !=
      SQLITE_OK)
    throw error_of(handle_, "bind");
}

void Statement::bind(std::nullopt_t) {
  if (sqlite3_bind_null(statement_, next_++) != SQLITE_OK) throw error_of(handle_, "bind");
}

bool Statement::step() {
  const int result = sqlite3_step(statement_);
  if (result != SQLITE_ROW && result != SQLITE_DONE) throw error_of(handle_, "step");
  return result == SQLITE_ROW;
}

int64_t Statement::integer(int column) const {
  return sqlite3_column_int64(statement_, column);
}

std::string Statement::text(int column) const {
  const auto* bytes = static_cast<const char*>(sqlite3_column_blob(statement_, column));
  const auto size = static_cast<size_t>(sqlite3_column_bytes(statement_, column));
  return bytes == nullptr ? std::string() : std::string(bytes, size);
}

Connection::Connection(const std::filesystem::path& file) {
  constexpr int kFlags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX;
  try {
    if (sqlite3_open_v2(file.c_str(), &handle_, kFlags, nullptr) != SQLITE_OK)
      throw error_of(handle_, "open");
    sqlite3_busy_timeout(handle_, kBusyTimeoutMs);
    // Exclusive: one server to a file. Full: a commit is on the device, in the log.
    script(
        "PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;"
        "PRAGMA foreign_keys = ON; BEGIN IMMEDIATE; COMMIT");
  } catch (...) {
    sqlite3_close_v2(handle_);
    throw;
  }
}

Connection::~Connection() {
  sqlite3_close_v2(handle_);
}

void Connection::script(std::string_view sql) {
  const std::string text(sql);
  if (sqlite3_exec(handle_, text.c_str(), nullptr, nullptr, nullptr) != SQLITE_OK)
    throw error_of(handle_, "script");
}

int64_t Connection::changes() const {
  return sqlite3_changes64(handle_);
}

Transaction::Transaction(Connection& connection) : connection_(connection) {
  connection_.script("BEGIN IMMEDIATE");
}

void Transaction::commit() {
  connection_.script("COMMIT");
  is_open_ = false;
}

Transaction::~Transaction() {
  if (!is_open_) return;
  try {
    connection_.script("ROLLBACK");
  } catch (const Error& error) {
    base::log::warn("a transaction had ended by itself: {}", error.text());
  }
}

Savepoint::Savepoint(Connection& connection) : connection_(connection) {
  connection_.script("SAVEPOINT part");
}

void Savepoint::release() {
  connection_.script("RELEASE part");
  is_open_ = false;
}

Savepoint::~Savepoint() {
  if (!is_open_) return;
  try {
    connection_.script("ROLLBACK TO part; RELEASE part");
  } catch (const Error& error) {
    base::log::warn("a part of a transaction had ended by itself: {}", error.text());
  }
}

}  // namespace penstock::db
