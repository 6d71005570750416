// Batches over a runner that the test answers for.
#include "jobs/batches.h"

#include <condition_variable>
#include <deque>
#include <mutex>
#include <set>
#include <thread>

#include "base/unix_time.h"
#include "unit/jobs/jobs_fixture.h"

namespace penstock::jobs {
namespace {

using base::Code;
using base::Error;
using base::Json;
using db::Database;
using db::testing::TemporaryFolder;
using testing::add;
using testing::answer_of;
using testing::read;

/// Takes the calls and gives them out one by one.
class Desk {
 public:
  struct Call {
    int n = 0;  // of the request's body
    Json body;
    Batches::OnAnswer on_answer;
  };

  Batches::Runner runner() {
    return [this](const BatchCall& call, Batches::OnAnswer on_answer) {
      const std::lock_guard lock(mutex_);
      calls_.push_back({call.body["n"].get<int>(), call.body, std::move(on_answer)});
      ++begun_;
      changed_.notify_all();
    };
  }

  Call next() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !calls_.empty(); });
    Call call = std::move(calls_.front());
    calls_.pop_front();
    return call;
  }

  /// Answers the next call; which it was.
  int answer(int status = 200) {
    const Call call = next();
    call.on_answer({status, "req", {{"echo", call.n}}});
    return call.n;
  }

  size_t begun() {
    const std::lock_guard lock(mutex_);
    return begun_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Call> calls_;
  size_t begun_ = 0;
};

/// One server over the folder.
struct Server {
  explicit Server(const std::filesystem::path& folder, Desk& desk, BatchOptions options = {})
      : file(folder / "a.db"),
        database(file, testing::schemas(file)),
        files(database),
        batches(std::in_place, database, files, options) {
    batches->start(desk.runner());
  }

  Batch create(int requests) {
    std::string text;
    for (int n = 0; n < requests; ++n) {
      text += R"({"custom_id": "c)" + std::to_string(n) +
              R"(", "method": "POST", "url": "/x", "body": {"n": )" + std::to_string(n) + "}}\n";
    }
    return create_for(add(files, text).id);
  }
  Batch create_for(const std::string& input_file_id) {
    return answer_of<Batch>([&](auto on) {
      Batch batch;
      batch.endpoint = "/x";
      batch.input_file_id = input_file_id;
      batch.completion_window = "24h";
      batch.metadata = {{"a", "b"}};
      batches->create(batch, on);
    });
  }
  Batch find(const std::string& id) {
    return answer_of<Batch>([&](auto on) { batches->find(id, on); });
  }
  Batch cancel(const std::string& id) {
    return answer_of<Batch>([&](auto on) { batches->cancel(id, on); });
  }
  Batch wait_for(const std::string& id, const std::string& status) {
    Batch batch = find(id);
    while (batch.status != status) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      batch = find(id);
    }
    return batch;
  }
  /// "custom_id status" of each line, and of a line without an answer its error's code.
  std::vector<std::string> lines(const std::string& file_id) {
    std::vector<std::string> out;
    std::string text = read(files, file_id).bytes;
    for (size_t at = 0; at < text.size(); at = text.find('\n', at) + 1) {
      const Json line = Json::parse(text.substr(at, text.find('\n', at) - at));
      EXPECT_TRUE(line["id"].get<std::string>().starts_with("batch_req_"));
      out.push_back(line["custom_id"].get<std::string>() + " " +
                    (line["response"].is_null() ? line["error"]["code"].get<std::string>()
                                                : line["response"]["status_code"].dump()));
    }
    return out;
  }

  const std::filesystem::path file;
  Database database;
  FileStore files;
  std::optional<Batches> batches;
};

TEST(Batches, answers_are_in_a_file_in_the_order_of_the_requests) {
  const TemporaryFolder folder;
  Desk desk;
  Server server(folder.path(), desk);
  const Batch created = server.create(3);
  EXPECT_EQ(created.status, "validating");
  EXPECT_EQ(created.metadata, Json({{"a", "b"}}));
  auto a = desk.next(), b = desk.next(), c = desk.next();
  EXPECT_EQ(a.body["priority"], "batch") << "beside what is live";
  c.on_answer({200, "r3", {{"echo", 2}}});
  b.on_answer({400, "r2", {{"error", "bad"}}});
  a.on_answer({200, "r1", {{"echo", 0}}});
  const Batch done = server.wait_for(created.id, "completed");
  EXPECT_EQ(done.total, 3);
  EXPECT_EQ(done.completed, 2);
  EXPECT_EQ(done.failed, 1);
  EXPECT_EQ(server.lines(done.output_file_id), (std::vector<std::string>{"c0 200", "c2 200"}));
  EXPECT_EQ(server.lines(done.error_file_id), std::vector<std::string>{"c1 400"});
  EXPECT_TRUE(done.times.contains("in_progress_at") && done.times.contains("completed_at"));
  const StoredFile output = read(server.files, done.output_file_id).file;
  EXPECT_EQ(output.purpose, "batch_output");
  EXPECT_EQ(output.name, created.id + "_output.jsonl");
}

TEST(Batches, only_so_many_run_at_once) {
  const TemporaryFolder folder;
  Desk desk;
  BatchOptions options;
  options.most_at_once = 2;
  Server server(folder.path(), desk, options);
  const Batch first = server.create(3), second = server.create(2);
  std::vector<Desk::Call> calls = {};
  calls.push_back(desk.next());
  calls.push_back(desk.next());
  EXPECT_EQ(server.find(first.id).status, "in_progress");
  EXPECT_EQ(desk.begun(), 2u);
  for (int left = 5; left > 0; --left) {
    calls.front().on_answer({200, "", {}});
    calls.erase(calls.begin());
    if (left > 2) calls.push_back(desk.next());
  }
  server.wait_for(first.id, "completed");
  server.wait_for(second.id, "completed");
  EXPECT_EQ(desk.begun(), 5u);
}

TEST(Batches, what_there_was_no_room_for_is_tried_again) {
  const TemporaryFolder folder;
  Desk desk;
  BatchOptions options;
  options.retry_ms = 1;
  Server server(folder.path(), desk, options);
  const Batch batch = server.create(1);
  desk.answer(429);
  desk.answer(503);
  desk.answer(200);
  const Batch done = server.wait_for(batch.id, "completed");
  EXPECT_EQ(done.completed, 1);
  EXPECT_EQ(done.error_file_id, "");
}

TEST(Batches, a_restart_computes_nothing_twice) {
  const TemporaryFolder folder;
  std::string id;
  std::set<int> answered;
  Desk desk;
  {
    BatchOptions options;
    options.most_at_once = 2;
    Server server(folder.path(), desk, options);
    id = server.create(6).id;
    answered.insert(desk.answer());
    answered.insert(desk.answer(400));
    while (server.find(id).completed + server.find(id).failed < 2) std::this_thread::yield();
    // Two more are in flight when the server goes.
  }
  Desk again;
  Server server(folder.path(), again);
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(answered.insert(again.answer()).second) << "computed twice";
  const Batch done = server.wait_for(id, "completed");
  EXPECT_EQ(done.completed, 5);
  EXPECT_EQ(done.failed, 1);
  EXPECT_EQ(again.begun(), 4u);
  EXPECT_EQ(server.lines(done.output_file_id).size(), 5u);
}

TEST(Batches, what_a_stopping_server_refuses_is_left_for_the_next) {
  const TemporaryFolder folder;
  std::string id;
  Desk desk;
  {
    Server server(folder.path(), desk);
    id = server.create(1).id;
    const auto call = desk.next();
    server.batches->stop();
    call.on_answer({503, "", {}});
    EXPECT_EQ(server.find(id).status, "in_progress");
  }
  Server server(folder.path(), desk);
  desk.answer();
  EXPECT_EQ(server.wait_for(id, "completed").completed, 1);
}

TEST(Batches, a_cancelled_one_keeps_what_was_answered) {
  const TemporaryFolder folder;
  Desk desk;
  BatchOptions options;
  options.most_at_once = 2;
  Server server(folder.path(), desk, options);
  const Batch batch = server.create(5);
  desk.answer();
  const auto one = desk.next(), two = desk.next();
  EXPECT_EQ(server.cancel(batch.id).status, "cancelling");
  EXPECT_EQ(server.cancel(batch.id).status, "cancelling") << "twice is as once";
  one.on_answer({200, "", {}});
  EXPECT_EQ(server.find(batch.id).status, "cancelling") << "one is in flight";
  two.on_answer({429, "", {}});
  const Batch done = server.wait_for(batch.id, "cancelled");
  EXPECT_EQ(desk.begun(), 3u);
  EXPECT_EQ(done.completed, 2);
  EXPECT_EQ(server.lines(done.output_file_id).size(), 2u);
  EXPECT_THROW(server.cancel(batch.id), Error);
}

TEST(Batches, one_that_takes_too_long_expires) {
  const TemporaryFolder folder;
  Desk desk;
  BatchOptions options;
  options.most_at_once = 1;
  options.lifetime_seconds = 0;
  Server server(folder.path(), desk, options);
  const Batch batch = server.create(2);
  const Batch done = server.wait_for(batch.id, "expired");
  EXPECT_EQ(desk.begun(), 0u);
  EXPECT_EQ(done.failed, 2);
  EXPECT_EQ(server.lines(done.error_file_id),
            (std::vector<std::string>{"c0 batch_expired", "c1 batch_expired"}));
}

TEST(Batches, a_wrong_input_fails_it) {
  const TemporaryFolder folder;
  Desk desk;
  Server server(folder.path(), desk);
  const Batch done = server.wait_for(server.create_for(add(server.files, "x\n").id).id, "failed");
  ASSERT_EQ(done.errors.size(), 1u);
  EXPECT_EQ(done.errors[0]["line"], 1);
  EXPECT_THROW(server.create_for("file-0"), Error);
  EXPECT_THROW(server.create_for(add(server.files, "x", "user_data").id), Error);
  EXPECT_THROW(server.find("batch_0"), Error);
  EXPECT_EQ(desk.begun(), 0u);
}

}  // namespace
}  // namespace penstock::jobs
