// The encoder's queue over an executor that says what it was given: which texts share a step, how jobs end.
#include "engine/encoder.h"

#include <future>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"

namespace penstock::engine {
namespace {

using base::Code;
using testing::ElementsAre;

models::Plan plan_of() {
  models::Plan plan;
  plan.task = models::Task::kEmbed;
  plan.vocab = 100;
  plan.max_position = 16;
  plan.pooled_width = 2;
  return plan;
}

/// A text becomes its first id and its length. Steps wait for open().
class FakeEncoder : public exec::Executor {
 public:
  struct Log {
    std::mutex mutex;
    std::condition_variable wake;
    bool is_open = true;
    bool entered = false;
    std::vector<std::vector<int32_t>> steps;  // first ids of the texts of each
  };
  explicit FakeEncoder(std::shared_ptr<Log> log) : log_(std::move(log)) {}

  const exec::Caps& caps() const override { return caps_; }
  exec::MemoryPlan measure(const models::Plan&, const ops::WeightTable&, const exec::Limits&) override {
    return {};
  }
  void load(const models::Plan&, const ops::WeightTable&, const exec::Limits&) override {}
  void reset_slot(int32_t, std::span<const int32_t>, std::span<const int32_t>) override {}
  exec::Ticket forward(const exec::Batch&) override { return 0; }
  void sample(exec::Ticket, const exec::SampleBatch&) override {}
  const exec::StepOutput& wait(exec::Ticket) override { return output_; }
  void release(exec::Ticket) override {}

  std::span<const float> encode(const exec::TextBatch& batch) override {
    std::unique_lock lock(log_->mutex);
    log_->entered = true;
    log_->wake.notify_all();
    log_->wake.wait(lock, [&] { return log_->is_open; });
    auto& step = log_->steps.emplace_back();
    values_.clear();
    size_t at = 0;
    for (const int32_t length : batch.lengths) {
      const int32_t id = batch.tokens[at];
      if (id == 99) throw base::Error(Code::kInternal, "a fault of the device");
      step.push_back(id);
      values_.push_back(id == 98 ? std::numeric_limits<float>::quiet_NaN() : static_cast<float>(id));
      values_.push_back(static_cast<float>(length));
      at += static_cast<size_t>(length);
    }
    return values_;
  }

 private:
  const std::shared_ptr<Log> log_;
  exec::Caps caps_;
  exec::StepOutput output_;
  std::vector<float> values_;
};

class EncoderTest : public testing::Test {
 protected:
  ~EncoderTest() override { open(); }

  void close() {
    const std::lock_guard lock(log_->mutex);
    log_->is_open = log_->entered = false;
  }
  void open() {
    const std::lock_guard lock(log_->mutex);
    log_->is_open = true;
    log_->wake.notify_all();
  }
  /// A first job is in its step and holds it up.
  std::future<Encoded> hold_up() {
    close();
    auto held = start({{1}});
    std::unique_lock lock(log_->mutex);
    log_->wake.wait(lock, [&] { return log_->entered; });
    return held;
  }

  std::future<Encoded> start(const std::vector<std::vector<int32_t>>& texts, int64_t timeout_ms = 0) {
    EncodeJob job;
    for (const auto& ids : texts) job.texts.push_back({ids, {}});
    if (timeout_ms != 0)
      job.deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(timeout_ms);
    auto done = std::make_shared<std::promise<Encoded>>();
    auto result = done->get_future();
    last_id_ = encoder_.encode(std::move(job), [done](Encoded encoded) { done->set_value(std::move(encoded)); });
    return result;
  }

  Code refusal(const std::vector<std::vector<int32_t>>& texts) {
    try {
      start(texts);
    } catch (const base::Error& error) {
      return error.code();
    }
    return Code::kInternal;
  }

  const std::shared_ptr<FakeEncoder::Log> log_ = std::make_shared<FakeEncoder::Log>();
  const models::Plan plan_ = plan_of();
  Encoder encoder_{std::make_unique<FakeEncoder>(log_), plan_,
                   {.max_queue = 4, .max_texts = 3, .max_batch_tokens = 16, .context_length = 16}};
  uint64_t last_id_ = 0;
};

TEST_F(EncoderTest, TextsComeBackInOrder) {
  const Encoded encoded = start({{5, 1}, {7}, {9, 2, 3}, {11}, {13}}).get();
  EXPECT_EQ(encoded.finish, Finish::kStop);
  EXPECT_THAT(encoded.values, ElementsAre(5, 2, 7, 1, 9, 3, 11, 1, 13, 1));
  EXPECT_EQ(encoded.prompt_tokens, 8);
  EXPECT_EQ(encoded.max_batch_width, 3);
  EXPECT_EQ(encoder_.counters().finished, 1u);
  EXPECT_EQ(encoder_.counters().prompt_tokens, 8u);
}

TEST_F(EncoderTest, JobsThatWaitShareStepsInTurn) {
  auto held = hold_up();
  auto large = start({{10}, {11}, {12}, {13}}), small = start({{20}});
  open();
  EXPECT_THAT(small.get().values, ElementsAre(20, 1));
  EXPECT_THAT(large.get().values, ElementsAre(10, 1, 11, 1, 12, 1, 13, 1));
  held.get();
  EXPECT_THAT(log_->steps, ElementsAre(ElementsAre(1), ElementsAre(10, 20, 11), ElementsAre(12, 13)));
}

TEST_F(EncoderTest, AStepHoldsNoMoreTokensThanItMay) {
  auto held = hold_up();
  auto longer = start({std::vector<int32_t>(10, 30), std::vector<int32_t>(10, 31)}), other = start({{40}});
  open();
  longer.get();
  other.get();
  EXPECT_THAT(log_->steps, ElementsAre(ElementsAre(1), ElementsAre(30, 40), ElementsAre(31)));
}

TEST_F(EncoderTest, ACancelledJobIsNotComputed) {
  auto held = hold_up();
  auto gone = start({{50}, {51}});
  encoder_.cancel(last_id_);
  auto kept = start({{60}});
  open();
  EXPECT_EQ(gone.get().finish, Finish::kCancelled);
  EXPECT_EQ(kept.get().finish, Finish::kStop);
  EXPECT_THAT(log_->steps, ElementsAre(ElementsAre(1), ElementsAre(60)));
  EXPECT_EQ(encoder_.counters().cancelled, 1u);
}

TEST_F(EncoderTest, AJobEndsWhenItsTimeIsOver) {
  auto held = hold_up();
  auto late = start({{50}}, -1);
  open();
  EXPECT_EQ(late.get().finish, Finish::kExpired);
  EXPECT_EQ(held.get().finish, Finish::kStop);
}

TEST_F(EncoderTest, TheQueueIsBounded) {
  auto held = hold_up();
  std::vector<std::future<Encoded>> waiting;
  for (int i = 0; i < 3; ++i) waiting.push_back(start({{i}}));
  EXPECT_TRUE(encoder_.is_full());
  EXPECT_EQ(refusal({{9}}), Code::kOverloaded);
  EXPECT_EQ(encoder_.counters().running, 1u);
  EXPECT_EQ(encoder_.counters().waiting, 3u);
  open();
  for (auto& one : waiting) EXPECT_EQ(one.get().finish, Finish::kStop);
  EXPECT_FALSE(encoder_.is_full());
}

TEST_F(EncoderTest, RefusesWhatNoStepCouldTake) {
  EXPECT_EQ(refusal({}), Code::kInvalidRequest);
  EXPECT_EQ(refusal({{1}, {}}), Code::kInvalidRequest);
  EXPECT_EQ(refusal({{100}}), Code::kInvalidRequest);
  EXPECT_EQ(refusal({std::vector<int32_t>(17, 1)}), Code::kContextLength);
}

TEST_F(EncoderTest, AFaultFailsTheJobsOfItsStepOnly) {
  auto held = hold_up();
  auto broken = start({{99}}), beside = start({{70}});
  open();
  EXPECT_EQ(broken.get().finish, Finish::kFailed);
  const Encoded other = beside.get();
  EXPECT_EQ(other.finish, Finish::kFailed);
  EXPECT_THAT(other.error, testing::HasSubstr("a fault of the device"));
  EXPECT_EQ(start({{71}}).get().finish, Finish::kStop);
  EXPECT_EQ(start({{98}}).get().finish, Finish::kFailed) << "not finite";
}

TEST_F(EncoderTest, StopEndsWhatWaits) {
  auto held = hold_up();
  auto waits = start({{50}});
  auto stopping = std::async(std::launch::async, [&] { encoder_.stop(); });
  open();
  stopping.get();
  EXPECT_TRUE(held.get().finish == Finish::kStop);
  const Finish finish = waits.get().finish;
  EXPECT_TRUE(finish == Finish::kCancelled || finish == Finish::kStop);
  EXPECT_EQ(refusal({{1}}), Code::kUnavailable);
}

TEST_F(EncoderTest, ItGeneratesNothing) {
  EXPECT_THROW(encoder_.submit(Job{.prompt = {1}}, std::shared_ptr<Sink>()), base::Error);
}

}  // namespace
}  // namespace penstock::engine
