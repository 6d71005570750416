#include "serve/responses_table.h"

#include <array>

namespace penstock::serve::responses_table {
namespace {

using base::Json;
using db::Connection;
using db::Statement;

constexpr std::array kMigrations = {
    db::Migration{"responses 1",
                  "CREATE TABLE responses ("
                  "  id TEXT PRIMARY KEY, previous_id TEXT NOT NULL, status TEXT NOT NULL,"
                  "  is_background INTEGER NOT NULL, created INTEGER NOT NULL, body TEXT NOT NULL,"
                  "  events TEXT NOT NULL);"
                  "CREATE INDEX responses_by_age ON responses (created);"
                  "CREATE TABLE response_items ("
                  "  response_id TEXT NOT NULL REFERENCES responses (id) ON DELETE CASCADE,"
                  "  is_output INTEGER NOT NULL, position INTEGER NOT NULL, id TEXT NOT NULL,"
                  "  item TEXT NOT NULL, PRIMARY KEY (response_id, is_output, position));"
                  "CREATE INDEX response_items_by_id ON response_items (id);"}};

/// Bytes that are no UTF-8 are replaced, as in an answer.
std::string dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

void insert_items(Connection& connection, const StoredResponse& response, const std::vector<Json>& items,
                  bool is_output) {
  for (size_t i = 0; i < items.size(); ++i) {
    connection.run(
        "INSERT INTO response_items (response_id, is_output, position, id, item) VALUES (?, ?, ?, ?, ?)",
        response.id, is_output, static_cast<int64_t>(i), items[i].value("id", ""), dump(items[i]));
  }
}

}  // namespace

std::span<const db::Migration> migrations() {
  return kMigrations;
}

void insert(Connection& connection, const StoredResponse& response) {
  erase(connection, response.id);
  Json body = response.body;
  body["output"] = Json::array();
  connection.run(
      "INSERT INTO responses (id, previous_id, status, is_background, created, body, events)"
      " VALUES (?, ?, ?, ?, ?, ?, ?)",
      response.id, response.previous_id, response.status, response.is_background, response.created,
      dump(body), response.events);
  insert_items(connection, response, response.input, false);
  insert_items(connection, response, response.output, true);
}

std::optional<StoredResponse> find(Connection& connection, const std::string& id) {
  Statement row = connection.query(
      "SELECT previous_id, status, is_background, created, body, events FROM responses WHERE id = ?", id);
  if (!row.step()) return std::nullopt;
  StoredResponse response{
      id, row.text(0), row.text(1), row.integer(2) != 0, row.integer(3), Json::parse(row.text(4)),
      {}, {},          row.text(5)};
  Statement items = connection.query(
      "SELECT is_output, item FROM response_items WHERE response_id = ? ORDER BY is_output, position", id);
  while (items.step()) {
    auto& list = items.integer(0) != 0 ? response.output : response.input;
    list.push_back(Json::parse(items.text(1)));
  }
  return response;
}

bool erase(Connection& connection, const std::string& id) {
  return connection.run("DELETE FROM responses WHERE id = ?", id) > 0;
}

std::optional<Json> find_item(Connection& connection, const std::string& item_id) {
  Statement row =
      connection.query("SELECT item FROM response_items WHERE id = ? ORDER BY rowid DESC LIMIT 1", item_id);
  if (!row.step()) return std::nullopt;
  return Json::parse(row.text(0));
}

std::vector<std::string> find_running(Connection& connection) {
  std::vector<std::string> ids;
  Statement rows = connection.query("SELECT id FROM responses WHERE status IN ('queued', 'in_progress')");
  while (rows.step()) ids.push_back(rows.text(0));
  return ids;
}

void erase_older_than(Connection& connection, int64_t unix_seconds) {
  connection.run("DELETE FROM responses WHERE created < ?", unix_seconds);
}

}  // namespace penstock::serve::responses_table
