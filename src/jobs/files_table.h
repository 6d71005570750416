// The table of stored files. Pure but for the connection; every statement about it is in files_table.cpp.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "db/connection.h"
#include "db/migration.h"
#include "jobs/file_store.h"

namespace penstock::jobs::files_table {

std::span<const db::Migration> migrations();

void insert(db::Connection& connection, const StoredFile& file);

/// One that has not expired at `now`.
std::optional<StoredFile> find(db::Connection& connection, const std::string& id, int64_t now);

/// Oldest first.
std::vector<StoredFile> list(db::Connection& connection, const std::string& purpose, int64_t now);

bool erase(db::Connection& connection, const std::string& id);
void erase_expired(db::Connection& connection, int64_t now);

}  // namespace penstock::jobs::files_table
