#include "jobs/files_table.h"

#include <array>

namespace penstock::jobs::files_table {
namespace {

using db::Connection;
using db::Statement;

constexpr std::array kMigrations = {
    db::Migration{"files 1",
                  "CREATE TABLE files ("
                  "  number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, name TEXT NOT NULL,"
                  "  purpose TEXT NOT NULL, bytes INTEGER NOT NULL, created INTEGER NOT NULL,"
                  "  expires INTEGER NOT NULL)"}};

StoredFile file_of(const Statement& row) {
  return {row.text(0), row.text(1), row.text(2), row.integer(3), row.integer(4), row.integer(5)};
}

}  // namespace

std::span<const db::Migration> migrations() {
  return kMigrations;
}

void insert(Connection& connection, const StoredFile& file) {
  connection.run("INSERT INTO files (id, name, purpose, bytes, created, expires) VALUES (?, ?, ?, ?, ?, ?)",
                 file.id, file.name, file.purpose, file.bytes, file.created, file.expires);
}

std::optional<StoredFile> find(Connection& connection, const std::string& id, int64_t now) {
  Statement row = connection.query(
      "SELECT id, name, purpose, bytes, created, expires FROM files"
      " WHERE id = ? AND (expires = 0 OR expires > ?)",
      id, now);
  if (!row.step()) return std::nullopt;
  return file_of(row);
}

std::vector<StoredFile> list(Connection& connection, const std::string& purpose, int64_t now) {
  std::vector<StoredFile> files;
  Statement rows = connection.query(
      "SELECT id, name, purpose, bytes, created, expires FROM files"
      " WHERE (? = '' OR purpose = ?) AND (expires = 0 OR expires > ?) ORDER BY number",
      purpose, purpose, now);
  while (rows.step()) files.push_back(file_of(rows));
  return files;
}

bool erase(Connection& connection, const std::string& id) {
  return connection.run("DELETE FROM files WHERE id = ?", id) > 0;
}

void erase_expired(Connection& connection, int64_t now) {
  connection.run("DELETE FROM files WHERE expires != 0 AND expires <= ?", now);
}

}  // namespace penstock::jobs::files_table
