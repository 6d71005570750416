// Changes of the tables from one version of the program to the next. Each is applied once, in the order of
// the lists. Pure but for the connection.
#pragma once

#include <span>
#include <string_view>

#include "db/connection.h"

namespace penstock::db {

struct Migration {
  std::string_view name;  // "responses 1"; never changed, nor is its text, once it was released
  std::string_view sql;
};

/// Applies those that the file has not, each whole or not at all. Throws Error(kUnsupported) for a file that
/// has one which `known` lacks: a newer program wrote it.
void migrate(Connection& connection, std::span<const Migration> known);

}  // namespace penstock::db
