// The tables of stored responses and their items. Pure but for the connection; every statement about them is
// in responses_table.cpp.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/json.h"
#include "db/connection.h"
#include "db/migration.h"
#include "serve/response_store.h"

namespace penstock::serve::responses_table {

std::span<const db::Migration> migrations();

void insert(db::Connection& connection, const StoredResponse& response);
std::optional<StoredResponse> find(db::Connection& connection, const std::string& id);
bool erase(db::Connection& connection, const std::string& id);

/// The newest item with this id.
std::optional<base::Json> find_item(db::Connection& connection, const std::string& item_id);

/// The ids of those that have not ended.
std::vector<std::string> find_running(db::Connection& connection);
void erase_older_than(db::Connection& connection, int64_t unix_seconds);

}  // namespace penstock::serve::responses_table
