// One open SQLite file and its statements. Used by one thread at a time. Knows no table: SQL text stands in
// the *_table.cpp files of the folders that own the tables.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

struct sqlite3;
struct sqlite3_stmt;

namespace penstock::db {

/// A prepared statement with its values. Throws Error: kUnavailable where another process has the file,
/// kCorrupt for a damaged one, kIo for what the system refuses, kInternal for wrong SQL.
class Statement {
 public:
  Statement(sqlite3* handle, std::string_view sql);
  ~Statement();
  Statement(Statement&& other) noexcept;
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  /// The next parameter, from the first on.
  void bind(int64_t value);
  void bind(int value) { bind(static_cast<int64_t>(value)); }
  void bind(bool value) { bind(static_cast<int64_t>(value)); }
  void bind(std::string_view value);
  void bind(const char* value) { bind(std::string_view(value)); }
  void bind(const std::string& value) { bind(std::string_view(value)); }
  void bind(std::nullopt_t);

  /// Goes to the next row; false after the last.
  bool step();

  // Of the row, columns from 0 on. A null is 0 or empty.
  int64_t integer(int column) const;
  std::string text(int column) const;

 private:
  sqlite3* handle_;
  sqlite3_stmt* statement_ = nullptr;
  int next_ = 1;
};

class Connection {
 public:
  /// Opens the file, makes it where it is not there, and keeps other processes out of it. What is committed
  /// is on the device. Throws as Statement does.
  explicit Connection(const std::filesystem::path& file);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  /// A statement with these values bound.
  template <class... Values>
  Statement query(std::string_view sql, const Values&... values) {
    Statement statement(handle_, sql);
    (statement.bind(values), ...);
    return statement;
  }

  /// Runs a statement that gives no rows; the number of rows that it changed.
  template <class... Values>
  int64_t run(std::string_view sql, const Values&... values) {
    query(sql, values...).step();
    return changes();
  }

  /// Several statements without values.
  void script(std::string_view sql);

 private:
  int64_t changes() const;

  sqlite3* handle_ = nullptr;
};

/// Everything between is done whole or not at all: it is undone unless commit() is called.
class Transaction {
 public:
  explicit Transaction(Connection& connection);
  ~Transaction();
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;
  void commit();

 private:
  Connection& connection_;
  bool is_open_ = true;
};

/// The same within a transaction, of which it undoes its own part.
class Savepoint {
 public:
  explicit Savepoint(Connection& connection);
  ~Savepoint();
  Savepoint(const Savepoint&) = delete;
  Savepoint& operator=(const Savepoint&) = delete;
  void release();

 private:
  Connection& connection_;
  bool is_open_ = true;
};

}  // namespace penstock::db
