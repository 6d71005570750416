// Runs jobs on one executor: one thread that plans a step, builds it, launches it, reads the oldest one and
// delivers. Owns the executor; everything but submit, cancel, counters, cache wishes and stop happens on its
// thread. Knows token ids only: text, stop strings and tool formats live above.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "base/bounded_queue.h"
#include "engine/batch_builder.h"
#include "engine/disk_tier.h"
#include "engine/fair_queue.h"
#include "engine/generator.h"
#include "engine/mask_builder.h"
#include "engine/options.h"
#include "engine/prefix_cache.h"
#include "engine/scheduler.h"
#include "engine/sequence.h"
#include "exec/executor.h"

namespace penstock::engine {

class Engine : public Generator {
 public:
  /// `executor` is loaded with `plan`, for at least the slots, batch tokens, context and blocks of `options`.
  /// Throws Error(kInvalidRequest) for options that do not go together.
  /// `draft_model` may be null; it has the same slots and vocabulary.
  Engine(std::unique_ptr<exec::Executor> executor, const models::Plan& plan, EngineOptions options,
         std::unique_ptr<speculate::DraftModel> draft_model = nullptr);
  ~Engine() override;

  using Generator::submit;
  std::vector<uint64_t> submit(Job job, std::vector<Member> members) override;
  void cancel(uint64_t id) override;
  Counters counters() const override;
  bool is_full() const override;
  void clear_cache() override;
  void trim_cache() override;
  void cache(CacheWish wish, OnCache on_done) override;
  /// Not from a sink: it waits for the thread that calls sinks.
  void stop() override;

  /// Tokens of prompt and answer together: the model's, or less where options or blocks allow less.
  int32_t context_length() const { return context_length_; }

 private:
  /// Sequences that start together.
  using Entry = std::vector<std::unique_ptr<Sequence>>;
  /// What came from other threads: jobs, an id to cancel, or a call that is made on the engine's thread.
  struct Command {
    Entry entry;
    uint64_t cancel = 0;
    std::function<void()> call;
  };
  using Inbox = base::BoundedQueue<Command>;

  struct Step {
    exec::Ticket ticket = 0;
    std::vector<Sequence*> rows;
    std::vector<int32_t> ends;      // of each row: the position behind its last token that is no draft
    std::vector<int32_t> n_drafts;  // of each row
    Sequence::Clock::time_point launched;
    int32_t width = 0;               // tokens of its rows; 0 where prompts are among them
    std::vector<Sequence*> drawing;  // of each draw
    std::string error;               // of a failed sample(): its sequences have heard of it
  };
  /// A job of the queue that may start.
  struct Candidate {
    uint64_t id = 0;  // in queue_ and waiting_
    Priority priority = Priority::kRealtime;
    cache::PrefixMatch match;   // of its first sequence
    std::vector<int32_t> need;  // [groups] blocks, of all its sequences
  };
  /// What the scheduler sees of the running sequences.
  struct RunningBlocks {
    std::vector<int32_t> need, own;  // [groups]
  };

  // engine.cpp: what comes in and what goes out
  void run();
  bool take_commands();
  void take(Command command);
  void expire();
  void cancel_everything();
  void end_where(const std::function<bool(const Sequence&)>& which, Finish why,
                 const std::string& error = {});
  void fail(std::span<Sequence* const> sequences, const std::string& error);
  void lose(const std::string& error);
  void finish(Sequence& sequence, Finish why, const std::string& error = {});
  void settle(Sequence& sequence);
  void drop_settled();
  void wait_again(std::unique_ptr<Sequence> sequence);

  // engine_cache.cpp: wishes of the cache, and the disk
  void open_disk();
  CacheState look(const cache::Beginning& beginning) const;
  void grant(const CacheWish& wish, const OnCache& answer);
  bool waits_for_disk(const Candidate& candidate);
  void write_behind();

  // engine_plan.cpp: what a step is made of
  StepPlan plan_next();
  void begin_followers();
  void propose_drafts();
  void cut_refused_drafts();
  std::vector<Candidate> candidates() const;
  Candidate candidate(const WaitingJob& job, Priority priority) const;
  std::vector<int32_t> blocks_of_follower(const Sequence& sequence) const;
  RunningBlocks blocks_of(const Sequence& sequence) const;
  void preempt(std::span<const int32_t> indices);
  void admit(std::span<const Candidate> admitted, std::vector<Sequence*>& leaders);
  void start(Entry& entry, const Candidate& candidate);

  // engine_steps.cpp: launching and reading
  bool launch_next();
  void launch(const StepPlan& plan, Step& step);
  void note_launched(const StepPlan& plan, Step& step);
  void read_oldest();
  void deliver(const Step& step, const exec::StepOutput& output);
  void deliver_draw(Sequence& sequence, const exec::StepOutput& output, size_t draw);
  void note_drafts(const Step& step);
  void count_blocks();
  void drop_kept();

  /// Jobs that may be in the engine.
  uint64_t room() const {
    return static_cast<uint64_t>(options_.max_seqs) + static_cast<uint64_t>(options_.max_queue);
  }

  const std::unique_ptr<exec::Executor> executor_;
  const EngineOptions options_;
  const int32_t vocab_;
  const size_t depth_;                           // steps in flight
  const speculate::SpeculatorOptions drafting_;  // no tokens where steps overlap: the text is then behind
  const int32_t unread_tokens_;                  // of one sequence, at most: those of all steps in flight
  cache::Groups groups_;
  PrefixCache prefix_;
  std::unique_ptr<DiskTier> disk_;  // null: none
  int32_t context_length_ = 0;

  const std::shared_ptr<Inbox> inbox_;  // the disk's thread may outlive the engine
  bool is_idle_ = false;                // nothing can be launched before something comes
  FairQueue queue_;
  std::map<uint64_t, Entry> waiting_;               // by the id of the first sequence, as in queue_
  std::vector<std::unique_ptr<Sequence>> running_;  // in order of admission
  std::set<int32_t> free_slots_;
  std::vector<Sequence*> planned_;  // of each row of the plan that is being launched
  std::deque<Step> launched_;       // oldest first
  BatchBuilder builder_;
  MaskBuilder masks_;
  speculate::Speculator speculator_;

  mutable std::mutex counters_mutex_;  // never held while a sink runs
  Counters counters_;
  uint64_t next_id_ = 1;
  bool stopping_ = false;
  std::string lost_;  // why nothing can run any more
  std::mutex stop_mutex_;
  std::thread thread_;
};

/// What is being thrown.
struct Failure {
  std::string text;
  bool lost = false;  // the executor can do nothing any more
};
Failure current_failure();

}  // namespace penstock::engine
