// The tables of batches and of the answers that a running one has so far. Pure but for the connection; every
// statement about them is in batches_table.cpp.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "db/connection.h"
#include "db/migration.h"
#include "jobs/batches.h"

namespace penstock::jobs::batches_table {

std::span<const db::Migration> migrations();

/// Replaces what has its id, but for the counts of answers.
void put(db::Connection& connection, const Batch& batch);
std::optional<Batch> find(db::Connection& connection, const std::string& id);
std::vector<Batch> list(db::Connection& connection);  // oldest first

/// The answer of one line, as it is written into a file; counted. The first one stays.
void put_answer(db::Connection& connection, const std::string& batch_id, size_t line, bool is_error,
                const std::string& text);
std::vector<size_t> answered_lines(db::Connection& connection, const std::string& batch_id);
/// In the order of the lines.
std::string answers(db::Connection& connection, const std::string& batch_id, bool is_error);
void erase_answers(db::Connection& connection, const std::string& batch_id);

}  // namespace penstock::jobs::batches_table
