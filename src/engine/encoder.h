// Texts to vectors or scores on one executor, with one thread of its own: the texts of all jobs that wait go
// into its steps together, those of one job after those of others. Thread-safe from outside. It generates
// nothing: of a Generator it has what is asked of every model.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "engine/generator.h"
#include "exec/executor.h"

namespace penstock::engine {

struct EncodeJob {
  struct Text {
    std::vector<int32_t> ids;    // at least one, at most the model's context
    std::vector<int32_t> types;  // of each id; empty: all 0
  };
  std::vector<Text> texts;                                        // at least one
  std::optional<std::chrono::steady_clock::time_point> deadline;  // ends with kExpired when it has passed
};

/// How a job ended.
struct Encoded {
  Finish finish = Finish::kFailed;  // kStop: done
  std::string error;                // for kFailed
  std::vector<float> values;        // [texts, width]
  int32_t prompt_tokens = 0;
  int32_t max_batch_width = 0;  // most texts in a step that this job shared
  double queue_ms = 0, compute_ms = 0;
};

/// Called once, on the encoder's thread: must neither block nor throw.
using OnEncoded = std::function<void(Encoded)>;

struct EncoderOptions {
  int32_t max_queue = 256;       // jobs that have not ended
  int32_t max_texts = 64;        // of one step
  int32_t max_batch_tokens = 0;  // of one step, at least a context
  int32_t context_length = 0;    // tokens of a text
};

class Encoder final : public Generator {
 public:
  /// Of a loaded executor, whose plan encodes and outlives this.
  Encoder(std::unique_ptr<exec::Executor> executor, const models::Plan& plan, EncoderOptions options);
  ~Encoder() override;  // stop()

  /// Returns the job's id, for cancel(). Throws Error(kOverloaded) when the queue is full, kContextLength for
  /// a text that is too long, kInvalidRequest for ids outside the vocabulary, kUnavailable after stop().
  uint64_t encode(EncodeJob job, OnEncoded on_done);

  /// Numbers that a text becomes.
  int32_t width() const { return plan_.pooled_width; }

  using Generator::submit;
  std::vector<uint64_t> submit(Job job, std::vector<Member> members) override;
  void cancel(uint64_t id) override;
  Counters counters() const override;
  bool is_full() const override;
  void clear_cache() override {}
  void cache(CacheWish wish, OnCache on_done) override;
  void stop() override;

 private:
  using Clock = std::chrono::steady_clock;

  struct Pending {
    uint64_t id = 0;
    EncodeJob job;
    OnEncoded on_done;
    Encoded result;
    size_t next = 0, done = 0;  // texts that went into a step, that came out of one
    bool cancelled = false;
    std::string error;
    Clock::time_point received = Clock::now();
    std::optional<Clock::time_point> started;
  };
  using PendingPtr = std::shared_ptr<Pending>;

  /// A text of a job in a step.
  struct Item {
    PendingPtr job;
    size_t text = 0;
  };

  void check(const EncodeJob& job) const;
  void run();
  std::vector<Item> next_step_locked();
  void compute(const std::vector<Item>& step);
  void end_jobs(std::unique_lock<std::mutex>& lock);
  std::optional<Finish> end_of(const Pending& job) const;

  const std::unique_ptr<exec::Executor> executor_;
  const models::Plan& plan_;
  const EncoderOptions options_;

  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<PendingPtr> jobs_;  // that have not ended, in order of arrival
  Counters counters_;
  uint64_t next_id_ = 1;
  bool stopped_ = false;
  std::thread thread_;
};

}  // namespace penstock::engine
