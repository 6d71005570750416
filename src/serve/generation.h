// One request on its way: prepared on a worker, its jobs in the engine, its tokens turned into events on a
// stream thread. The engine thread only appends to its mailboxes. Anyone may cancel it.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "chat/event.h"
#include "chat/request.h"
#include "engine/generator.h"
#include "pool/model.h"
#include "serve/choice.h"
#include "serve/counters.h"
#include "serve/live_requests.h"
#include "serve/request_work.h"
#include "serve/service_time.h"
#include "serve/session_registry.h"
#include "serve/telemetry.h"
#include "serve/workers.h"

namespace penstock::serve {

/// What generations of one service share. Outlives them.
struct Shared {
  Shared(int prepare_threads, size_t max_preparing, int stream_threads)
      : prepare(prepare_threads, max_preparing), stream(stream_threads, SIZE_MAX) {}

  std::shared_ptr<SessionRegistry> sessions;  // null: none are kept

  Tally tally;
  LiveRequests live;
  ServiceTime service_time;
  Telemetry telemetry;
  Workers prepare;  // templates and tokenising: may be slow
  Workers stream;   // tokens to events: short
};

class Generation : public RequestWork, public std::enable_shared_from_this<Generation> {
 public:
  /// Counted as begun by the caller, counted as ended by itself. `sink` gets nothing after a cancel but what
  /// is on its way, and for kById a Failure(kCancelled).
  Generation(std::shared_ptr<Shared> shared, chat::Request request, std::shared_ptr<chat::EventSink> sink);

  const chat::Request& request() const { return request_; }

  const std::string& id() const override { return request_.id; }
  void check(const pool::Model& model) const override;
  void attach(std::shared_ptr<const pool::Model> model) override;
  void await_model(std::function<bool()> withdraw) override;
  void refuse(base::Error error, Tally::End how) override { fail(std::move(error), how); }
  /// Template, tokens, submission, Started or Failure.
  void prepare_and_submit() override;
  void cancel(Why why) override;

 private:
  class Mailbox;
  struct Slot {
    std::optional<Choice> choice;
    std::optional<uint64_t> job;
    std::vector<engine::Token> tokens;  // from the engine, not yet processed
    std::vector<engine::Token> taken;   // being processed; the two change places, so neither is made anew
    std::optional<engine::Receipt> receipt;
    bool closed = true;      // not in the engine: not yet submitted, or its receipt is processed
    bool stop_sent = false;  // cancelled for a stop string
    std::optional<std::chrono::steady_clock::time_point> last_token;
  };

  void submit();
  void make_slots(size_t count);
  void open_members(size_t first_slot, const std::vector<uint64_t>& jobs);
  void receive(size_t slot, std::span<const engine::Token> tokens);
  void close(size_t slot, const engine::Receipt& receipt);
  bool schedule_locked();
  void drain();
  bool take(size_t index, std::optional<engine::Receipt>& receipt);
  bool reschedule();
  void process(size_t index, const std::optional<engine::Receipt>& receipt);
  void note(size_t index, const engine::Receipt& receipt);
  void finish_choice(size_t index, const engine::Receipt& receipt);
  void fail(base::Error error, Tally::End how);
  void emit(chat::Event event);
  void end_if_closed();
  void note_session();
  Outcome outcome() const;
  void report();
  void cancel_jobs();
  void end_wait(const std::function<bool()>& withdraw);
  std::optional<Why> cancelled() const;

  const std::shared_ptr<Shared> shared_;
  const chat::Request request_;
  std::shared_ptr<const pool::Model> model_;  // a lease where the model may be unloaded
  const std::chrono::steady_clock::time_point received_ = std::chrono::steady_clock::now();

  // Of the worker until streaming_, then of the stream thread.
  std::shared_ptr<chat::EventSink> sink_;
  chat::Usage usage_;
  chat::Receipt receipt_;
  Tally::End how_ = Tally::End::kFinished;
  bool failed_ = false, ended_ = false, cut_ = false;  // cut_: a choice ended for its length
  std::optional<base::Code> error_;
  std::vector<int32_t> session_tokens_;  // prompt and answer of the first choice, where a session is named
  uint64_t cache_salt_ = 0;
  size_t open_ = 0;  // slots whose job is in the engine

  mutable std::mutex mutex_;
  std::vector<Slot> slots_;  // elements: job, tokens, receipt under the mutex, the rest as above
  std::optional<Why> cancelled_;
  std::function<bool()> withdraw_;          // while it waits for a model
  std::atomic<bool> is_cancelled_ = false;  // cancelled_, without the mutex
  std::optional<std::chrono::steady_clock::time_point> first_token_;
  Histogram gaps_;          // between tokens of a choice
  bool streaming_ = false;  // Started is out
  bool scheduled_ = false;  // a drain is queued or runs
};

}  // namespace penstock::serve
