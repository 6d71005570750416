#include "jobs/batches_table.h"

#include <array>

namespace penstock::jobs::batches_table {
namespace {

using base::Json;
using db::Connection;
using db::Statement;

constexpr std::array kMigrations = {
    db::Migration{"batches 1",
                  "CREATE TABLE batches ("
                  "  number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, status TEXT NOT NULL,"
                  "  created INTEGER NOT NULL, endpoint TEXT NOT NULL, input_file_id TEXT NOT NULL,"
                  "  completion_window TEXT NOT NULL, total INTEGER NOT NULL, completed INTEGER NOT NULL,"
                  "  failed INTEGER NOT NULL, output_file_id TEXT NOT NULL, error_file_id TEXT NOT NULL,"
                  "  times TEXT NOT NULL, errors TEXT NOT NULL, metadata TEXT NOT NULL);"
                  "CREATE TABLE batch_answers ("
                  "  batch_id TEXT NOT NULL, line INTEGER NOT NULL, is_error INTEGER NOT NULL,"
                  "  answer TEXT NOT NULL, PRIMARY KEY (batch_id, line)) WITHOUT ROWID"}};

constexpr const char* kColumns =
    "SELECT id, status, created, endpoint, input_file_id, completion_window, total, completed, failed,"
    " output_file_id, error_file_id, times, errors, metadata FROM batches ";

Batch batch_of(const Statement& row) {
  Batch batch;
  batch.id = row.text(0);
  batch.status = row.text(1);
  batch.created = row.integer(2);
  batch.endpoint = row.text(3);
  batch.input_file_id = row.text(4);
  batch.completion_window = row.text(5);
  batch.total = row.integer(6);
  batch.completed = row.integer(7);
  batch.failed = row.integer(8);
  batch.output_file_id = row.text(9);
  batch.error_file_id = row.text(10);
  batch.times = Json::parse(row.text(11));
  batch.errors = Json::parse(row.text(12));
  batch.metadata = Json::parse(row.text(13));
  return batch;
}

std::string dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

std::span<const db::Migration> migrations() {
  return kMigrations;
}

void put(Connection& connection, const Batch& batch) {
  connection.run(
      "INSERT OR IGNORE INTO batches (id, status, created, endpoint, input_file_id, completion_window,"
      " total, completed, failed, output_file_id, error_file_id, times, errors, metadata)"
      " VALUES (?, '', ?, ?, ?, ?, 0, 0, 0, '', '', '', '', ?)",
      batch.id, batch.created, batch.endpoint, batch.input_file_id, batch.completion_window,
      dump(batch.metadata));
  connection.run(
      "UPDATE batches SET status = ?, total = ?, output_file_id = ?, error_file_id = ?, times = ?,"
      " errors = ? WHERE id = ?",
      batch.status, batch.total, batch.output_file_id, batch.error_file_id, dump(batch.times),
      dump(batch.errors), batch.id);
}

std::optional<Batch> find(Connection& connection, const std::string& id) {
  Statement row = connection.query(std::string(kColumns) + "WHERE id = ?", id);
  if (!row.step()) return std::nullopt;
  return batch_of(row);
}

std::vector<Batch> list(Connection& connection) {
  std::vector<Batch> batches;
  Statement rows = connection.query(std::string(kColumns) + "ORDER BY number");
  while (rows.step()) batches.push_back(batch_of(rows));
  return batches;
}

void put_answer(Connection& connection, const std::string& batch_id, size_t line, bool is_error,
                const std::string& text) {
  const int64_t added = connection.run(
      "INSERT OR IGNORE INTO batch_answers (batch_id, line, is_error, answer) VALUES (?, ?, ?, ?)", batch_id,
      static_cast<int64_t>(line), is_error, text);
  connection.run(is_error ? "UPDATE batches SET failed = failed + ? WHERE id = ?"
                          : "UPDATE batches SET completed = completed + ? WHERE id = ?",
                 added, batch_id);
}

std::vector<size_t> answered_lines(Connection& connection, const std::string& batch_id) {
  std::vector<size_t> lines;
  Statement rows =
      connection.query("SELECT line FROM batch_answers WHERE batch_id = ? ORDER BY line", batch_id);
  while (rows.step()) lines.push_back(static_cast<size_t>(rows.integer(0)));
  return lines;
}

std::string answers(Connection& connection, const std::string& batch_id, bool is_error) {
  std::string text;
  Statement rows =
      connection.query("SELECT answer FROM batch_answers WHERE batch_id = ? AND is_error = ? ORDER BY line",
                       batch_id, is_error);
  while (rows.step()) text += rows.text(0) + "\n";
  return text;
}

void erase_answers(Connection& connection, const std::string& batch_id) {
  connection.run("DELETE FROM batch_answers WHERE batch_id = ?", batch_id);
}

}  // namespace penstock::jobs::batches_table
