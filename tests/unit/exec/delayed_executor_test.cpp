#include "exec/delayed_executor.h"

#include <cmath>

#include <gtest/gtest.h>

#include "base/error.h"
#include "unit/engine/fake_executor.h"

namespace penstock::exec {
namespace {

using testing::FakeExecutor;
using testing::FakeOptions;

FakeOptions options() {
  FakeOptions o;
  o.windows = {0};
  o.n_blocks = {16};
  o.explode_token = 90;
  return o;
}

/// Feeds one prompt token, then generated tokens, to slot `slot`.
class Feed {
 public:
  Feed(Executor& executor, int32_t slot) : executor_(executor), slot_(slot) {}

  Ticket prompt(int32_t token) {
    edits_.push_back({slot_, 0, 0, slot_});
    return step(Role::kPrompt, token);
  }
  Ticket next(int32_t token) { return step(Role::kGenerated, token); }

  void draw(Ticket ticket) {
    SampleRow row;
    row.params.temperature = 1;
    executor_.sample(ticket, {std::span(&row, 1), {}});
  }

 private:
  Ticket step(Role role, int32_t token) {
    const Row row{
        .slot = slot_, .role = role, .first_token = 0, .n_tokens = 1, .position = position_++, .n_logits = 1};
    const Ticket ticket = executor_.forward({std::span(&row, 1), std::span(&token, 1), edits_});
    edits_.clear();
    return ticket;
  }

  Executor& executor_;
  int32_t slot_;
  int32_t position_ = 0;
  std::vector<TableEdit> edits_;
};

std::vector<int32_t> generate(Executor& executor, bool ahead) {
  std::vector<int32_t> tokens;
  Feed feed(executor, 0);
  executor.reset_slot(0, std::vector<int32_t>{5}, {});
  Ticket ticket = feed.prompt(5);
  feed.draw(ticket);
  for (int i = 0; i < 10; ++i) {
    Ticket next = 0;
    if (ahead) {
      next = feed.next(kOnDevice);
      feed.draw(next);
    }
    tokens.push_back(executor.wait(ticket).tokens[0]);
    executor.release(ticket);
    if (!ahead) {
      next = feed.next(tokens.back());
      feed.draw(next);
    }
    ticket = next;
  }
  executor.wait(ticket);
  executor.release(ticket);
  return tokens;
}

TEST(DelayedExecutor, GivesTheTokensOfTheInnerOne) {
  FakeExecutor plain(options());
  const std::vector<int32_t> expected = generate(plain, false);
  for (const int32_t depth : {1, 2, 3}) {
    for (const bool ahead : {false, true}) {
      if (ahead && depth == 1) continue;
      DelayedExecutor delayed(std::make_unique<FakeExecutor>(options()), depth);
      EXPECT_EQ(delayed.caps().steps_in_flight, depth);
      EXPECT_EQ(generate(delayed, ahead), expected);
    }
  }
}

TEST(DelayedExecutor, NothingRunsBeforeWait) {
  FakeOptions o = options();
  int ran = 0;
  o.on_step = [&](int32_t) { ++ran; };
  DelayedExecutor delayed(std::make_unique<FakeExecutor>(o), 2);
  Feed feed(delayed, 0);
  delayed.reset_slot(0, {}, {});
  const Ticket a = feed.prompt(1);
  feed.draw(a);
  const Ticket b = feed.next(kOnDevice);
  EXPECT_EQ(ran, 0);
  delayed.wait(a);
  EXPECT_EQ(ran, 1);
  feed.draw(b);  // masks could have been built in between
  delayed.wait(b);
  EXPECT_EQ(ran, 2);
}

TEST(DelayedExecutor, PoisonsReleasedOutputs) {
  DelayedExecutor delayed(std::make_unique<FakeExecutor>(options()), 1);
  Feed feed(delayed, 0);
  delayed.reset_slot(0, {}, {});
  const Ticket ticket = feed.prompt(1);
  feed.draw(ticket);
  const StepOutput view = delayed.wait(ticket);
  const int32_t token = view.tokens[0];
  EXPECT_LT(token, 97);
  delayed.release(ticket);
  EXPECT_NE(view.tokens[0], token);
  EXPECT_TRUE(std::isnan(view.logprobs[0]));
}

TEST(DelayedExecutor, AFailedStepThrowsInWaitAlone) {
  DelayedExecutor delayed(std::make_unique<FakeExecutor>(options()), 3);
  Feed bad(delayed, 0), good(delayed, 1);
  delayed.reset_slot(0, {}, {});
  delayed.reset_slot(1, {}, {});
  const Ticket a = bad.prompt(90);
  bad.draw(a);
  const Ticket b = good.prompt(7);
  good.draw(b);
  const Ticket c = bad.next(kOnDevice);
  bad.draw(c);
  EXPECT_THROW(delayed.wait(a), base::Error);
  delayed.release(a);
  EXPECT_GE(delayed.wait(b).tokens[0], 0);
  delayed.release(b);
  delayed.wait(c);
  delayed.release(c);
}

TEST(DelayedExecutor, RefusesMisuse) {
  const auto misuse = [](auto&& use) {
    DelayedExecutor delayed(std::make_unique<FakeExecutor>(options()), 2);
    Feed feed(delayed, 0);
    delayed.reset_slot(0, {}, {});
    const Ticket ticket = feed.prompt(1);
    EXPECT_THROW(use(delayed, feed, ticket), base::Error);
  };
  misuse([](Executor&, Feed& feed, Ticket t) { feed.draw(t), feed.draw(t); });
  misuse([](Executor& e, Feed&, Ticket t) { e.wait(t); });
  misuse([](Executor& e, Feed&, Ticket t) { e.release(t); });
  misuse([](Executor& e, Feed&, Ticket) { e.reset_slot(0, {}, {}); });
  misuse([](Executor&, Feed& feed, Ticket) { feed.next(kOnDevice); });
  misuse([](Executor&, Feed& feed, Ticket t) { feed.draw(t), feed.next(3); });
  misuse([](Executor& e, Feed& feed, Ticket t) { feed.draw(t), e.wait(t), e.wait(t); });
  misuse([](Executor& e, Feed& feed, Ticket t) { feed.draw(t), e.wait(t), e.release(t), e.release(t); });
  misuse([](Executor&, Feed& feed, Ticket t) {
    feed.draw(t), feed.draw(feed.next(kOnDevice)), feed.next(kOnDevice);
  });
}

}  // namespace
}  // namespace penstock::exec
