// What the engine tests share: a sink that collects, engines on the fake executor, random jobs, solo runs.
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <random>

#include <gtest/gtest.h>

#include "engine/engine.h"
#include "exec/delayed_executor.h"
#include "unit/engine/fake_executor.h"

namespace penstock::testing {

class Collector : public engine::Sink {
 public:
  void on_tokens(std::span<const engine::Token> tokens) override {
    {
      const std::lock_guard lock(mutex_);
      EXPECT_EQ(ends_, 0) << "tokens after the end";
      for (const engine::Token& t : tokens) tokens_.push_back(t);
    }
    changed_.notify_all();
  }
  void on_finish(const engine::Receipt& receipt) override {
    {
      const std::lock_guard lock(mutex_);
      EXPECT_EQ(ends_++, 0) << "a second end";
      receipt_ = receipt;
    }
    changed_.notify_all();
  }

  /// Waits for the end.
  engine::Receipt receipt() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return ends_ > 0; });
    return receipt_;
  }
  void wait_for_tokens(size_t n) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return ends_ > 0 || tokens_.size() >= n; });
  }
  std::vector<engine::Token> tokens() {
    const std::lock_guard lock(mutex_);
    return tokens_;
  }
  std::vector<int32_t> ids() {
    std::vector<int32_t> ids;
    for (const engine::Token& t : tokens()) ids.push_back(t.id);
    return ids;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<engine::Token> tokens_;
  engine::Receipt receipt_;
  int ends_ = 0;
};

/// Holds the engine's thread in a step until opened.
class Gate {
 public:
  void open() {
    {
      const std::lock_guard lock(mutex_);
      open_ = true;
    }
    changed_.notify_all();
  }
  /// For FakeOptions::on_step.
  void pass() {
    std::unique_lock lock(mutex_);
    reached_ = true;
    changed_.notify_all();
    changed_.wait(lock, [&] { return open_; });
  }
  void wait_reached() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return reached_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false, reached_ = false;
};

inline engine::EngineOptions engine_options(const FakeOptions& fake) {
  engine::EngineOptions options;
  options.max_seqs = fake.max_slots;
  options.max_batch_tokens = 160;
  options.prefill_chunk_tokens = 64;
  options.n_blocks = fake.n_blocks;
  return options;
}

/// A clock that stands still but for the steps that move it.
struct StepClock {
  std::atomic<int64_t> us = 0;
  std::chrono::steady_clock::time_point now() const {
    return std::chrono::steady_clock::time_point(std::chrono::microseconds(us.load()));
  }
};

/// Depth 0: the fake executor itself; else delayed by that many steps.
inline std::unique_ptr<engine::Engine> make_engine(int32_t depth, const FakeOptions& fake,
                                                   const engine::EngineOptions& options) {
  std::unique_ptr<exec::Executor> executor = std::make_unique<FakeExecutor>(fake);
  if (depth > 0) executor = std::make_unique<exec::DelayedExecutor>(std::move(executor), depth);
  return std::make_unique<engine::Engine>(std::move(executor), fake_plan(fake), options);
}
inline std::unique_ptr<engine::Engine> make_engine(int32_t depth, const FakeOptions& fake = {}) {
  return make_engine(depth, fake, engine_options(fake));
}

class RandomJobs {
 public:
  explicit RandomJobs(uint64_t seed) : rng_(seed) {}

  int32_t integer(int32_t low, int32_t high) {
    return std::uniform_int_distribution<int32_t>(low, high)(rng_);
  }

  engine::Job job(int32_t max_prompt, int32_t max_tokens) {
    engine::Job job;
    for (int32_t i = integer(1, max_prompt); i > 0; --i) job.prompt.push_back(integer(0, 89));
    job.max_tokens = integer(1, max_tokens);
    job.params.seed = rng_();
    job.params.temperature = integer(0, 1) == 0 ? 0.0f : 0.9f;
    job.params.top_k = integer(0, 1) == 0 ? 0 : 20;
    job.params.top_p = integer(0, 1) == 0 ? 1.0f : 0.9f;
    job.params.repetition_penalty = integer(0, 1) == 0 ? 1.0f : 1.2f;
    job.params.frequency_penalty = integer(0, 1) == 0 ? 0.0f : 0.3f;
    for (int32_t i = integer(0, 2); i > 0; --i) job.biases.push_back({integer(0, 89), 2.5f});
    if (integer(0, 2) == 0) job.stop_ids = {integer(0, 96), integer(0, 96)};
    job.top_logprobs = integer(-1, 3);
    return job;
  }

 private:
  std::mt19937_64 rng_;
};

struct Result {
  std::vector<int32_t> ids;
  std::vector<float> logprobs;
  engine::Receipt receipt;

  explicit Result(Collector& sink) : receipt(sink.receipt()) {
    for (const engine::Token& t : sink.tokens()) ids.push_back(t.id), logprobs.push_back(t.logprob);
  }
};

/// The job alone, on an undelayed executor whose blocks and chunks have other sizes.
inline Result solo(const engine::Job& job) {
  FakeOptions fake;
  fake.block_tokens = 7;
  engine::EngineOptions options = engine_options(fake);
  options.max_batch_tokens = 512;
  options.prefill_chunk_tokens = 512;
  const auto alone = make_engine(0, fake, options);
  const auto sink = std::make_shared<Collector>();
  alone->submit(job, sink);
  return Result(*sink);
}

/// A job with a prompt of `n` tokens, the same for the same n's beginning.
inline engine::Job job_of(int32_t n, int32_t max_tokens, uint64_t seed = 1) {
  engine::Job job;
  for (int32_t i = 0; i < n; ++i) job.prompt.push_back((i * 7 + i / 13) % 90);
  job.max_tokens = max_tokens;
  job.params.seed = seed;
  job.params.temperature = 0.9f;
  job.params.repetition_penalty = 1.2f;
  job.params.frequency_penalty = 0.3f;
  job.top_logprobs = 0;
  return job;
}

/// The job's end, on an engine that others may use too.
inline Result run(engine::Engine& engine, const engine::Job& job) {
  const auto sink = std::make_shared<Collector>();
  engine.submit(job, sink);
  return Result(*sink);
}

inline void expect_same(const Result& got, const Result& expected) {
  EXPECT_EQ(got.ids, expected.ids);
  EXPECT_EQ(got.logprobs, expected.logprobs);
  EXPECT_EQ(got.receipt.finish, expected.receipt.finish) << got.receipt.error;
  EXPECT_EQ(got.receipt.stop_id, expected.receipt.stop_id);
  EXPECT_EQ(got.receipt.completion_tokens, static_cast<int32_t>(got.ids.size()));
}

/// Waits until no step is in flight: blocks of ended sequences are then back.
inline engine::Counters settled(engine::Engine& engine) {
  engine::Counters c = engine.counters();
  while (c.running + c.waiting + c.blocks_used > 0) {
    std::this_thread::yield();
    c = engine.counters();
  }
  return c;
}

}  // namespace penstock::testing
