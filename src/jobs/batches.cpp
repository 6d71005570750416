#include "jobs/batches.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <utility>

#include "base/log.h"
#include "base/random_id.h"
#include "base/unix_time.h"
#include "jobs/batch_input.h"
#include "jobs/batches_table.h"

namespace penstock::jobs {
namespace {

using base::Code;
using base::Error;
using base::Json;
using db::Connection;
using db::Database;

constexpr int64_t kWatchMs = 60000;  // how often a batch's time is looked at when nothing happens

bool has_ended(const Batch& batch) {
  constexpr std::array<std::string_view, 4> kEnds = {"completed", "failed", "expired", "cancelled"};
  return std::find(kEnds.begin(), kEnds.end(), batch.status) != kEnds.end();
}

Batch found(Connection& connection, const std::string& id) {
  auto batch = batches_table::find(connection, id);
  if (!batch)
    throw Error(Code::kNotFound, "[jobs.batches] expected a batch; got none with the id " + id, "batch_id");
  return std::move(*batch);
}

void set_status(Batch& batch, const std::string& status) {
  batch.status = status;
  batch.times[status + "_at"] = base::unix_seconds();
}

std::string answer_line(const std::string& custom_id, const BatchAnswer& answer) {
  const Json line = {
      {"id", base::random_id("batch_req_")},
      {"custom_id", custom_id},
      {"response",
       {{"status_code", answer.status}, {"request_id", answer.request_id}, {"body", answer.body}}},
      {"error", nullptr}};
  return line.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string expired_line(const std::string& custom_id) {
  const Json line = {
      {"id", base::random_id("batch_req_")},
      {"custom_id", custom_id},
      {"response", nullptr},
      {"error", {{"code", "batch_expired"}, {"message", "the batch expired before this request was begun"}}}};
  return line.dump(-1, ' ', false, Json::error_handler_t::replace);
}

bool is_success(const BatchAnswer& answer) {
  return answer.status >= 200 && answer.status < 300;
}

/// The server had no room, or stops: nothing that is to be said of the request.
bool is_for_later(const BatchAnswer& answer) {
  return answer.status == 429 || answer.status == 503;
}

void log_error(const Error& error) {
  base::log::error("a batch is held up: {}", error.text());
}

}  // namespace

Batches::Batches(Database& database, FileStore& files, BatchOptions options)
    : database_(database), files_(files), options_(options) {}

Batches::~Batches() {
  stop();
  database_.stop();  // whose thread has its state
}

db::Schema Batches::schema() {
  return {batches_table::migrations(), nullptr};
}

void Batches::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (watch_.joinable()) watch_.join();
}

void Batches::start(Runner runner) {
  runner_ = std::move(runner);
  watch_ = std::thread([this] { watch(); });
  if (!database_.exists()) return;
  database_.submit(
      [this](Connection& connection) -> Database::Reply {
        std::vector<std::string> ids;
        for (const Batch& batch : batches_table::list(connection))
          if (!has_ended(batch)) ids.push_back(batch.id);
        return [this, ids] {
          for (const std::string& id : ids) load(id);
        };
      },
      log_error);
}

void Batches::create(Batch batch, On<Batch> on_created) {
  database_.submit(
      [this, batch = std::move(batch), on_created](Connection& connection) mutable -> Database::Reply {
        const StoredFile input = files_.find(connection, batch.input_file_id, "input_file_id");
        if (input.purpose != "batch") {
          throw Error(Code::kInvalidRequest,
                      "[jobs.batches] expected a file of purpose batch; got one of purpose " + input.purpose,
                      "input_file_id");
        }
        batch.id = base::random_id("batch_");
        batch.created = base::unix_seconds();
        batch.status = "validating";
        batch.times["expires_at"] = batch.created + options_.lifetime_seconds;
        batches_table::put(connection, batch);
        return [this, batch, on_created] {
          on_created(batch);
          load(batch.id);
        };
      },
      [on_created](const Error& error) { on_created(error); });
}

void Batches::find(const std::string& id, On<Batch> on_found) {
  database_.submit(
      [id, on_found](Connection& connection) -> Database::Reply {
        return [batch = found(connection, id), on_found] { on_found(batch); };
      },
      [on_found](const Error& error) { on_found(error); });
}

void Batches::list(On<std::vector<Batch>> on_listed) {
  database_.submit(
      [on_listed](Connection& connection) -> Database::Reply {
        return [batches = batches_table::list(connection), on_listed] { on_listed(batches); };
      },
      [on_listed](const Error& error) { on_listed(error); });
}

void Batches::cancel(const std::string& id, On<Batch> on_cancelled) {
  database_.submit(
      [this, id, on_cancelled](Connection& connection) -> Database::Reply {
        Batch batch = found(connection, id);
        if (has_ended(batch)) {
          throw Error(Code::kInvalidRequest,
                      "[jobs.batches] expected a batch that runs; got one that is " + batch.status,
                      "batch_id");
        }
        if (batch.status != "cancelling") set_status(batch, "cancelling");
        batches_table::put(connection, batch);
        return [this, batch, on_cancelled] {
          if (const auto active = active_.find(batch.id); active != active_.end()) {
            active->second.batch.status = batch.status;
            active->second.batch.times = batch.times;
            active->second.pending.clear();
          }
          on_cancelled(batch);
          finish(batch.id);
        };
      },
      [on_cancelled](const Error& error) { on_cancelled(error); });
}

/// Reads its input; what was answered before is not asked again.
void Batches::load(const std::string& id) {
  database_.submit(
      [this, id](Connection& connection) -> Database::Reply {
        Batch batch = found(connection, id);
        if (has_ended(batch)) return nullptr;
        Active active;
        try {
          active = read(connection, batch);
        } catch (const Error& error) {
          batch.errors.push_back({{"code", "invalid_input_file"},
                                  {"message", error.text()},
                                  {"param", "input_file_id"},
                                  {"line", nullptr}});
          set_status(batch, "failed");
          batches_table::put(connection, batch);
          return nullptr;
        }
        if (has_ended(active.batch)) return nullptr;
        auto loaded = std::make_shared<Active>(std::move(active));
        return [this, loaded] {
          active_[loaded->batch.id] = std::move(*loaded);
          pump();
          finish(loaded->batch.id);
        };
      },
      log_error);
}

Batches::Active Batches::read(Connection& connection, Batch batch) const {
  Active active;
  BatchInput input = read_batch_input(files_.read(connection, batch.input_file_id).bytes, batch.endpoint);
  batch.total = static_cast<int64_t>(input.lines.size());
  if (!input.errors.empty()) {
    batch.errors = std::move(input.errors);
    set_status(batch, "failed");
  } else if (batch.status == "validating") {
    set_status(batch, "in_progress");
  }
  batches_table::put(connection, batch);
  for (BatchInputLine& line : input.lines)
    active.lines.push_back({std::move(line.custom_id), std::move(line.body)});
  const std::vector<size_t> answered = batches_table::answered_lines(connection, batch.id);
  for (size_t line = active.lines.size(); line-- > 0 && batch.status == "in_progress";)
    if (!std::binary_search(answered.begin(), answered.end(), line)) active.pending.push_back(line);
  active.batch = std::move(batch);
  return active;
}

/// Begins requests while there is room, of the oldest batch first.
void Batches::pump() {
  for (auto& [id, active] : active_) {
    drop_expired(active);
    while (!stopping_ && in_flight_ < options_.most_at_once && !active.pending.empty()) {
      const size_t line = active.pending.back();
      active.pending.pop_back();
      begin(active, line);
    }
  }
}

void Batches::begin(Active& active, size_t line) {
  ++active.in_flight;
  ++in_flight_;
  Json body = Json::parse(active.lines[line].body);
  body["priority"] = "batch";
  runner_({active.batch.endpoint, std::move(body)},
          [this, id = active.batch.id, line](BatchAnswer answer) { on_answer(id, line, std::move(answer)); });
}

/// On any thread.
void Batches::on_answer(const std::string& id, size_t line, BatchAnswer answer) {
  const auto again = [this, id, line] { put_back(id, line); };
  if (is_for_later(answer)) {
    database_.submit([again](Connection&) -> Database::Reply { return again; }, log_error);
    return;
  }
  database_.submit(
      [this, id, line, answer = std::move(answer)](Connection& connection) -> Database::Reply {
        const std::string text = answer_line(active_.at(id).lines[line].custom_id, answer);
        batches_table::put_answer(connection, id, line, !is_success(answer), text);
        return [this, id] {
          --in_flight_;
          --active_.at(id).in_flight;
          pump();
          finish(id);
        };
      },
      [again](const Error& error) {
        log_error(error);
        again();
      });
}

/// A line that was begun is to be begun again, when there is room.
void Batches::put_back(const std::string& id, size_t line) {
  if (stopping_) return;
  --in_flight_;
  Active& active = active_.at(id);
  --active.in_flight;
  if (active.batch.status == "in_progress") active.pending.push_back(line);
  wake_later();
  finish(id);
}

void Batches::drop_expired(Active& active) {
  if (active.batch.status != "in_progress" || active.pending.empty()) return;
  if (active.batch.times.value("expires_at", INT64_MAX) > base::unix_seconds()) return;
  active.batch.times["expired_at"] = base::unix_seconds();
  database_.submit(
      [this, id = active.batch.id,
       lines = std::exchange(active.pending, {})](Connection& connection) -> Database::Reply {
        const Active& expired = active_.at(id);
        for (const size_t line : lines)
          batches_table::put_answer(connection, id, line, true, expired_line(expired.lines[line].custom_id));
        batches_table::put(connection, expired.batch);
        return [this, id] { finish(id); };
      },
      log_error);
}

/// If nothing of it is left to do. May be called more often than it ends.
void Batches::finish(const std::string& id) {
  const auto active = active_.find(id);
  if (active == active_.end() || active->second.in_flight > 0 || !active->second.pending.empty()) return;
  database_.submit(
      [this, id](Connection& connection) -> Database::Reply {
        if (has_ended(found(connection, id))) return nullptr;
        batches_table::put(connection, finished(connection, active_.at(id).batch));
        batches_table::erase_answers(connection, id);
        return [this, id] { active_.erase(id); };
      },
      log_error);
}

/// Files and the end in one commit: after a crash there is all of it, or none and it is done again.
Batch Batches::finished(Connection& connection, Batch batch) const {
  const auto write = [&](bool is_error, const char* name) -> std::string {
    const std::string text = batches_table::answers(connection, batch.id, is_error);
    if (text.empty()) return "";
    StoredFile file;
    file.name = batch.id + name;
    file.purpose = "batch_output";
    return files_.add(connection, std::move(file), text).id;
  };
  batch.times["finalizing_at"] = base::unix_seconds();
  batch.output_file_id = write(false, "_output.jsonl");
  batch.error_file_id = write(true, "_error.jsonl");
  set_status(batch, batch.status == "cancelling"         ? "cancelled"
                    : batch.times.contains("expired_at") ? "expired"
                                                         : "completed");
  return batch;
}

void Batches::wake_later() {
  {
    const std::lock_guard lock(mutex_);
    wants_retry_ = true;
  }
  changed_.notify_all();
}

/// Its own thread: goes on with what waits for room, and looks at the time.
void Batches::watch() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    changed_.wait_for(lock, std::chrono::milliseconds(kWatchMs),
                      [this] { return stopping_ || wants_retry_; });
    if (std::exchange(wants_retry_, false))
      changed_.wait_for(lock, std::chrono::milliseconds(options_.retry_ms),
                        [this] { return stopping_.load(); });
    if (stopping_ || !database_.exists()) continue;
    database_.submit([this](Connection&) -> Database::Reply { return [this] { pump(); }; }, log_error);
  }
}

}  // namespace penstock::jobs
