#include "serve/response_store.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/unix_time.h"
#include "serve/responses_table.h"

namespace penstock::serve {
namespace {

using base::Code;
using base::Error;
using base::Json;
using db::Connection;
using db::Database;

constexpr int64_t kKeptSeconds = int64_t{30} * 24 * 3600;

/// The client was told that they run; nobody will end them any more.
void fail_interrupted(Connection& connection) {
  for (const std::string& id : responses_table::find_running(connection)) {
    StoredResponse response = *responses_table::find(connection, id);
    response.status = "failed";
    response.body["status"] = "failed";
    response.body["error"] = {{"code", "server_error"},
                              {"message", "the server ended before the response did"}};
    responses_table::insert(connection, response);
  }
}

void on_opened(Connection& connection) {
  fail_interrupted(connection);
  responses_table::erase_older_than(connection, base::unix_seconds() - kKeptSeconds);
}

Error not_found(const std::string& id, const std::string& param) {
  return {Code::kNotFound, "[serve.responses] expected a stored response; got none with the id " + id, param};
}

StoredResponse found(Connection& connection, const std::string& id, const std::string& param) {
  auto response = responses_table::find(connection, id);
  if (!response) throw not_found(id, param);
  return std::move(*response);
}

/// Walks from the last response to the first.
std::vector<Json> conversation(Connection& connection, std::string id) {
  std::vector<StoredResponse> turns;
  while (!id.empty()) {
    turns.push_back(found(connection, id, "previous_response_id"));
    if (turns.back().status == "queued" || turns.back().status == "in_progress") {
      throw Error(Code::kInvalidRequest,
                  "[serve.responses] expected a previous response that has ended; " + id + " still runs",
                  "previous_response_id");
    }
    id = turns.back().previous_id;
  }
  std::vector<Json> items;
  for (auto turn = turns.rbegin(); turn != turns.rend(); ++turn) {
    std::move(turn->input.begin(), turn->input.end(), std::back_inserter(items));
    std::move(turn->output.begin(), turn->output.end(), std::back_inserter(items));
  }
  return items;
}

/// Work whose result, or whose error, is given to `on`.
template <class T>
void ask(Database& database, std::function<T(Connection&)> work, ResponseStore::On<T> on) {
  database.submit(
      [work = std::move(work), on](Connection& connection) -> Database::Reply {
        auto result = std::make_shared<T>(work(connection));
        return [result, on] { on(std::move(*result)); };
      },
      [on](const Error& error) { on(error); });
}

void act(Database& database, std::function<void(Connection&)> work, ResponseStore::OnDone on_done) {
  database.submit(
      [work = std::move(work), on_done](Connection& connection) -> Database::Reply {
        work(connection);
        return [on_done] { on_done(std::nullopt); };
      },
      [on_done](const Error& error) { on_done(error); });
}

}  // namespace

db::Schema ResponseStore::schema() {
  return {responses_table::migrations(), on_opened};
}

void ResponseStore::save(StoredResponse response, OnDone on_done) {
  act(
      database_,
      [response = std::move(response)](Connection& connection) {
        responses_table::insert(connection, response);
      },
      std::move(on_done));
}

void ResponseStore::find(const std::string& id, On<StoredResponse> on_found) {
  ask<StoredResponse>(
      database_, [id](Connection& connection) { return found(connection, id, "response_id"); },
      std::move(on_found));
}

void ResponseStore::erase(const std::string& id, OnDone on_done) {
  act(
      database_,
      [id](Connection& connection) {
        if (!responses_table::erase(connection, id)) throw not_found(id, "response_id");
      },
      std::move(on_done));
}

void ResponseStore::history(const std::string& previous_id, std::vector<std::string> references,
                            On<History> on_found) {
  ask<History>(
      database_,
      [previous_id, references = std::move(references)](Connection& connection) {
        History history;
        history.items = conversation(connection, previous_id);
        for (const std::string& id : references) {
          auto item = responses_table::find_item(connection, id);
          if (!item) {
            throw Error(Code::kNotFound,
                        "[serve.responses] expected a stored item; got none with the id " + id, "input");
          }
          history.references.emplace(id, std::move(*item));
        }
        return history;
      },
      std::move(on_found));
}

}  // namespace penstock::serve
