// Runs jobs on one executor: one thread that plans a step, builds it, launches it, reads the oldest one and
// delivers. Owns the executor; everything but submit, cancel, counters and stop happens on its thread. Knows
// token ids only: text, stop strings and tool formats live above.
#pragma once

#include <deque>
#include <mutex>
#include <set>
#include <thread>
#include <variant>

#include "base/bounded_queue.h"
#include "cache/sequence_table.h"
#include "engine/batch_builder.h"
#include "engine/generator.h"
#include "engine/options.h"
#include "engine/scheduler.h"
#include "engine/sequence.h"
#include "exec/executor.h"

namespace penstock::engine {

class Engine : public Generator {
 public:
  /// `executor` is loaded with `plan`, for at least the slots, batch tokens, context and blocks of `options`.
  /// Throws Error(kInvalidRequest) for options that do not go together.
  Engine(std::unique_ptr<exec::Executor> executor, const models::Plan& plan, EngineOptions options);
  ~Engine() override;

  uint64_t submit(Job job, std::shared_ptr<Sink> sink) override;
  void cancel(uint64_t id) override;
  Counters counters() const override;
  /// Not from a sink: it waits for the thread that calls sinks.
  void stop() override;

  /// Tokens of prompt and answer together: the model's, or less where options or blocks allow less.
  int32_t context_length() const { return context_length_; }

 private:
  using Command = std::variant<std::unique_ptr<Sequence>, uint64_t>;  // a new job, or the id to cancel

  struct Step {
    exec::Ticket ticket = 0;
    std::vector<Sequence*> rows;
    std::vector<Sequence*> drawing;  // of each draw
    std::string error;               // of a failed sample(): its sequences have heard of it
  };

  void run();
  bool take_commands();
  void take(Command command);
  void cancel_everything();

  bool launch_next();
  StepPlan plan_next() const;
  void admit(int32_t n);
  std::vector<Sequence*> rows_of(const StepPlan& plan) const;
  void launch(const StepPlan& plan, Step& step);
  void note_launched(const StepPlan& plan, const Step& step);

  void read_oldest();
  void deliver(const Step& step, const exec::StepOutput& output);
  void deliver_draw(Sequence& sequence, const exec::StepOutput& output, size_t draw);
  void fail(std::span<Sequence* const> sequences, const std::string& error);
  void lose(const std::string& error);
  void finish(Sequence& sequence, Finish why, const std::string& error = {});
  void settle(Sequence& sequence);
  void drop_settled();

  const std::unique_ptr<exec::Executor> executor_;
  const EngineOptions options_;
  const int32_t vocab_;
  const size_t depth_;  // steps in flight
  cache::Groups groups_;
  int32_t context_length_ = 0;

  base::BoundedQueue<Command> inbox_;
  std::deque<std::unique_ptr<Sequence>> waiting_;   // in order of arrival
  std::vector<std::unique_ptr<Sequence>> running_;  // in order of admission
  std::set<int32_t> free_slots_;
  std::deque<Step> launched_;  // oldest first
  BatchBuilder builder_;

  mutable std::mutex counters_mutex_;  // never held while a sink runs
  Counters counters_;
  uint64_t next_id_ = 1;
  bool stopping_ = false;
  std::string lost_;  // why nothing can run any more
  std::mutex stop_mutex_;
  std::thread thread_;
};

}  // namespace penstock::engine
