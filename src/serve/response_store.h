// Answers of the Responses API that outlive their requests: the response, what it was asked and what it
// answered, item by item. Thread-safe; answers come on the database's thread, with an error or without.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "db/database.h"

namespace penstock::serve {

struct StoredResponse {
  std::string id;
  std::string previous_id;  // empty: it began a conversation
  std::string status;       // as the API names it
  bool is_background = false;
  int64_t created = 0;  // unix seconds
  base::Json body;      // the response object, whose `output` stands in `output`
  std::vector<base::Json> input, output;
  std::string events;  // its stream, an event's JSON a line, where it may be read again; else empty
};

/// What stands before a new request.
struct History {
  std::vector<base::Json> items;                 // of the conversation, oldest first
  std::map<std::string, base::Json> references;  // items by their ids
};

class ResponseStore {
 public:
  template <class T>
  using On = std::function<void(std::variant<T, base::Error>)>;
  using OnDone = std::function<void(std::optional<base::Error>)>;

  /// `database` must outlive it and have its schema.
  explicit ResponseStore(db::Database& database) : database_(database) {}

  /// Its tables, and at each opening: what ran when the server ended has failed, and what is older than 30
  /// days goes.
  static db::Schema schema();

  /// Replaces what has its id.
  void save(StoredResponse response, OnDone on_done);

  /// kNotFound for an unknown id.
  void find(const std::string& id, On<StoredResponse> on_found);
  void erase(const std::string& id, OnDone on_done);

  /// The conversation that ends with `previous_id` (empty: none) and the items that `references` name.
  /// kNotFound with the field's name for what is not there, kInvalidRequest for a response that still runs.
  void history(const std::string& previous_id, std::vector<std::string> references, On<History> on_found);

 private:
  db::Database& database_;
};

}  // namespace penstock::serve
