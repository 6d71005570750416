#include "db/migration.h"

#include <algorithm>
#include <set>
#include <string>

#include "base/error.h"

namespace penstock::db {

void migrate(Connection& connection, std::span<const Migration> known) {
  connection.script("CREATE TABLE IF NOT EXISTS migrations (name TEXT PRIMARY KEY) WITHOUT ROWID");
  std::set<std::string, std::less<>> applied;
  for (Statement rows = connection.query("SELECT name FROM migrations"); rows.step();)
    applied.insert(rows.text(0));
  for (const std::string& name : applied) {
    if (std::any_of(known.begin(), known.end(), [&](const Migration& one) { return one.name == name; }))
      continue;
    throw base::Error(base::Code::kUnsupported,
                      "[db.migrate] expected a database of this version or an older one; got one with '" +
                          name + "' of a newer: use another state_dir");
  }
  for (const Migration& one : known) {
    if (applied.contains(one.name)) continue;
    Transaction transaction(connection);
    connection.script(one.sql);
    connection.run("INSERT INTO migrations (name) VALUES (?)", one.name);
    transaction.commit();
  }
}

}  // namespace penstock::db
