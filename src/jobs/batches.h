// Batches: a file of requests, run beside the live ones and a few at a time, each answer stored as it comes,
// so that a restart goes on where it was. Thread-safe; its state belongs to the database's thread, on which
// answers come too. It does not know what a request is: the surfaces give it what runs one.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "db/database.h"
#include "jobs/file_store.h"

namespace penstock::jobs {

struct Batch {
  std::string id;
  std::string endpoint, input_file_id, completion_window;
  std::string status;                            // as the API names it
  int64_t created = 0;                           // unix seconds
  int64_t total = 0, completed = 0, failed = 0;  // requests
  std::string output_file_id, error_file_id;     // empty: none
  base::Json times = base::Json::object();       // "in_progress_at", ...: unix seconds
  base::Json errors = base::Json::array();       // of its input file
  base::Json metadata = base::Json::object();
};

/// One request of a batch.
struct BatchCall {
  std::string endpoint;
  base::Json body;
};

struct BatchAnswer {
  int status = 0;  // of HTTP
  std::string request_id;
  base::Json body;
};

struct BatchOptions {
  size_t most_at_once = 8;  // requests in flight, of all batches
  int64_t retry_ms = 1000;  // until a request that the server had no room for is tried again
  int64_t lifetime_seconds = int64_t{24} * 3600;
};

class Batches {
 public:
  template <class T>
  using On = std::function<void(std::variant<T, base::Error>)>;
  using OnAnswer = std::function<void(BatchAnswer)>;
  /// Called on the database's thread; must not block. The answer may come from any thread.
  using Runner = std::function<void(BatchCall, OnAnswer)>;

  /// Both must outlive it; `database` must have its schema.
  Batches(db::Database& database, FileStore& files, BatchOptions options = {});
  ~Batches();  // stop(), and the database's
  Batches(const Batches&) = delete;
  Batches& operator=(const Batches&) = delete;

  static db::Schema schema();

  /// From now on batches run, those of an earlier server too.
  void start(Runner runner);

  /// No further request is begun, and what the server refuses from now on is left for the next start.
  void stop();

  /// Takes endpoint, input_file_id, completion_window and metadata.
  void create(Batch batch, On<Batch> on_created);
  void find(const std::string& id, On<Batch> on_found);
  void list(On<std::vector<Batch>> on_listed);  // oldest first
  /// What runs may finish; what is not begun never is. kInvalidRequest for one that has ended.
  void cancel(const std::string& id, On<Batch> on_cancelled);

 private:
  struct Line {
    std::string custom_id;
    std::string body;  // JSON
  };
  /// A batch that is at work. Of the database's thread.
  struct Active {
    Batch batch;
    std::vector<Line> lines;
    std::vector<size_t> pending;  // lines to begin, the last first
    size_t in_flight = 0;
  };

  void load(const std::string& id);
  Active read(db::Connection& connection, Batch batch) const;
  void pump();
  void begin(Active& active, size_t line);
  void on_answer(const std::string& id, size_t line, BatchAnswer answer);
  void put_back(const std::string& id, size_t line);
  void drop_expired(Active& active);
  void finish(const std::string& id);
  Batch finished(db::Connection& connection, Batch batch) const;
  void wake_later();
  void watch();

  db::Database& database_;
  FileStore& files_;
  const BatchOptions options_;

  // Of the database's thread.
  Runner runner_;
  std::map<std::string, Active> active_;
  size_t in_flight_ = 0;

  std::atomic<bool> stopping_ = false;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool wants_retry_ = false;
  std::thread watch_;
};

}  // namespace penstock::jobs
