#include "serve/service.h"

#include <condition_variable>
#include <future>
#include <mutex>

#include <gtest/gtest.h>

#include "base/error.h"
#include "serve/scripted_generator.h"

namespace penstock::serve {
namespace {

using base::Code;

/// Remembers every event; tests wait for the last one.
class Recorder : public chat::EventSink {
 public:
  void on_event(chat::Event event) override {
    const std::lock_guard lock(mutex_);
    if (const auto* delta = std::get_if<chat::TextDelta>(&event)) texts_[delta->choice] += delta->text;
    if (const auto* end = std::get_if<chat::Finished>(&event)) reasons_[end->choice] = end->reason;
    if (const auto* done = std::get_if<chat::Done>(&event)) done_ = *done;
    if (const auto* failure = std::get_if<chat::Failure>(&event)) failure_ = failure->error.code();
    if (std::holds_alternative<chat::Started>(event)) ++started_;
    ended_ = ended_ || done_ || failure_;
    ready_.notify_all();
  }

  bool wait_end() {
    return wait([&] { return ended_; });
  }
  bool wait_text(const std::string& text) {
    return wait([&] { return texts_[0] == text; });
  }

  std::string text(int32_t choice = 0) {
    const std::lock_guard lock(mutex_);
    return texts_[choice];
  }

  std::map<int32_t, std::string> texts_;
  std::map<int32_t, chat::FinishReason> reasons_;
  std::optional<chat::Done> done_;
  std::optional<Code> failure_;
  int started_ = 0;
  bool ended_ = false;

 private:
  template <class Predicate>
  bool wait(Predicate predicate) {
    std::unique_lock lock(mutex_);
    return ready_.wait_for(lock, std::chrono::seconds(20), predicate);
  }

  std::mutex mutex_;
  std::condition_variable ready_;
};

chat::Request ask(const std::string& text) {
  chat::Conversation conversation;
  chat::Message message;
  message.role = "user";
  message.content = {chat::Part{text}};
  conversation.messages = {message};
  chat::Request request;
  request.input = conversation;
  return request;
}

struct Fixture {
  explicit Fixture(const std::string& script) : service(make_scripted_model(parse_script(script))) {}

  std::shared_ptr<Recorder> run(chat::Request request) {
    auto recorder = std::make_shared<Recorder>();
    service.submit(std::move(request), recorder);
    EXPECT_TRUE(recorder->wait_end());
    return recorder;
  }

  Service service;
};

TEST(Service, answers_and_counts) {
  Fixture f(R"({"replies": [{"pieces": ["Hel", "lo"]}]})");
  const auto r = f.run(ask("hi"));
  EXPECT_EQ(r->text(), "Hello");
  EXPECT_EQ(r->started_, 1);
  ASSERT_TRUE(r->done_);
  EXPECT_EQ(r->done_->usage.prompt_tokens, 20) << "TK-20: the bytes of 'user: hi\\nassistant: '";
  EXPECT_EQ(r->done_->usage.completion_tokens, 2);
  EXPECT_EQ(r->done_->receipt.executor, "scripted");
  EXPECT_EQ(r->done_->receipt.batch_width, 1);
  const Counters c = f.service.counters();
  EXPECT_EQ(c.received, 1u);
  EXPECT_EQ(c.finished, 1u);
  EXPECT_EQ(c.running, 0u);
}

TEST(Service, AN_13_counts_what_a_request_would_be_fed) {
  Fixture f(R"({"names": ["own"], "context_length": 30, "replies": [{"pieces": ["a"]}]})");
  const auto count = [&](chat::Request request) {
    std::promise<std::variant<int32_t, base::Error>> counted;
    f.service.count_tokens(std::move(request), [&](const auto& result) { counted.set_value(result); });
    return counted.get_future().get();
  };
  EXPECT_EQ(std::get<int32_t>(count(ask("hi"))), 20);
  EXPECT_EQ(std::get<int32_t>(count(ask(std::string(100, 'x')))), 118) << "longer than the context";
  chat::Request bad = ask("hi");
  std::get<chat::Conversation>(bad.input).messages.clear();
  EXPECT_THROW(count(bad), base::Error);
  chat::Request unknown = ask("hi");
  unknown.model = "other";
  EXPECT_THROW(count(unknown), base::Error);
  EXPECT_EQ(f.service.counters().received, 0u) << "no answer was asked for";
  f.service.stop();
  EXPECT_THROW(count(ask("hi")), base::Error);
}

TEST(Service, AN_02_names_of_hosted_models_are_the_first_model) {
  const auto model = make_scripted_model(parse_script(R"({"model": "own", "replies": [{"pieces": ["a"]}]})"));
  Service service(model);
  EXPECT_EQ(service.model("claude-sonnet-4-5").id, "own");
  EXPECT_EQ(service.model("gpt-4o").id, "own");
  for (const char* name : {"gpt-oss-20b", "claude", "other", "my-gpt-4"})
    EXPECT_THROW(service.model(name), base::Error) << name;
  ServiceOptions options;
  options.hosted_model_names = false;
  Service strict(model, options);
  EXPECT_THROW(strict.model("claude-sonnet-4-5"), base::Error);
}

TEST(Service, a_hosted_name_may_have_a_profile) {
  ServiceOptions options;
  options.profiles["cold"] = {};
  Service service(make_scripted_model(parse_script(R"({"model": "own", "replies": [{"pieces": ["a"]}]})")),
                  options);
  EXPECT_EQ(service.model("claude-sonnet-4-5:cold").id, "own");
  EXPECT_EQ(service.model("claude-sonnet-4-5:hot").id, "own")
      << "a name that begins so, whatever it ends with";
  EXPECT_THROW(service.model("other:cold"), base::Error);
}

TEST(Service, a_stop_string_ends_the_engine_job_at_once) {
  Fixture f(R"({"replies": [{"pieces": ["ab", "END", "zz"], "delays_ms": [0, 0, 60000]}]})");
  chat::Request request = ask("hi");
  request.stop = {"END"};
  const auto r = f.run(request);
  EXPECT_EQ(r->text(), "ab");
  EXPECT_EQ(r->reasons_[0], chat::FinishReason::kStop);
  EXPECT_EQ(f.service.engine_counters().cancelled, 1u);
  EXPECT_EQ(f.service.counters().finished, 1u) << "a stop is no cancellation of the request";
}

TEST(Service, a_reply_that_starts_again_keeps_its_delays) {
  Fixture f(R"({"replies": [{"pieces": ["a"], "delays_ms": 40, "end_delay_ms": 60000}]})");
  chat::Request request = ask("hi");
  request.ignore_eos = true;
  request.max_tokens = 4;
  const auto r = f.run(request);
  EXPECT_EQ(r->text(), "aaaa");
  ASSERT_TRUE(r->done_);
  EXPECT_GE(r->done_->receipt.prefill_ms + r->done_->receipt.decode_ms, 160) << "four delays of the script";
}

TEST(Service, CX_09_a_cancelled_request_is_counted_once) {
  Fixture f(R"({"replies": [{"pieces": ["a", "b"], "delays_ms": [0, 60000]}]})");
  const auto recorder = std::make_shared<Recorder>();
  const auto generation = f.service.submit(ask("hi"), recorder);
  ASSERT_TRUE(recorder->wait_text("a"));
  generation->cancel(Generation::Why::kDisconnected);
  generation->cancel(Generation::Why::kCaller);
  ASSERT_TRUE(f.service.wait_idle(20000));
  const Counters c = f.service.counters();
  EXPECT_EQ(c.cancelled, 1u);
  EXPECT_EQ(c.cancelled_via_disconnect, 1u);
  EXPECT_EQ(c.running, 0u);
  EXPECT_EQ(c.received, c.finished + c.cancelled + c.failed + c.refused);
  EXPECT_FALSE(recorder->ended_) << "a client that went away gets no last event";
}

TEST(Service, CX_06_a_queued_request_that_is_cancelled_never_runs) {
  Fixture f(R"({"max_num_seqs": 1, "replies": [{"pieces": ["a", "b"], "delays_ms": [0, 60000]}]})");
  const auto first = std::make_shared<Recorder>();
  const auto running = f.service.submit(ask("hi"), first);
  ASSERT_TRUE(first->wait_text("a"));
  const auto second = std::make_shared<Recorder>();
  const auto queued = f.service.submit(ask("hi"), second);
  while (f.service.engine_counters().waiting == 0) std::this_thread::yield();
  queued->cancel(Generation::Why::kCaller);
  while (f.service.counters().cancelled == 0) std::this_thread::yield();
  EXPECT_EQ(second->text(), "");
  EXPECT_EQ(f.service.engine_counters().waiting, 0u);
  EXPECT_EQ(f.service.engine_counters().running, 1u);
  running->cancel(Generation::Why::kCaller);
  EXPECT_TRUE(f.service.wait_idle(20000));
}

TEST(Service, several_choices_have_their_own_texts_and_seeds) {
  Fixture f(R"({"gather": 3, "replies": [{"report": true}]})");
  chat::Request request = ask("hi");
  request.n = 3;
  request.sampling.seed = 5;
  const auto r = f.run(request);
  const auto seed = [&](int i) { return base::parse_json(r->text(i), "report")["seed"].get<uint64_t>(); };
  EXPECT_EQ(seed(0), 5u) << "the first choice equals a request for one";
  EXPECT_NE(seed(1), seed(2));
  EXPECT_EQ(r->reasons_.size(), 3u);
  EXPECT_EQ(r->done_->usage.prompt_tokens, 20) << "a prompt counts once";
  EXPECT_EQ(r->done_->receipt.batch_width, 3);
}

TEST(Service, LP_01_a_prompt_over_the_context_is_refused_before_it_starts) {
  Fixture f(R"({"context_length": 64, "replies": [{"pieces": ["a"]}]})");
  const auto r = f.run(ask(std::string(100, 'x')));
  EXPECT_EQ(r->failure_, Code::kContextLength);
  EXPECT_EQ(r->started_, 0);
  EXPECT_EQ(f.service.counters().refused, 1u);
  EXPECT_EQ(f.service.engine_counters().submitted, 0u);
}

TEST(Service, max_tokens_is_cut_to_the_room_left) {
  Fixture f(R"({"context_length": 30, "replies": [{"pieces": ["a"], "repeat": 100}]})");
  chat::Request request = ask("hi");
  request.max_tokens = int64_t{1} << 40;
  const auto r = f.run(request);
  EXPECT_EQ(r->done_->usage.completion_tokens, 10);
  EXPECT_EQ(r->done_->receipt.max_tokens, 10);
  EXPECT_EQ(r->reasons_[0], chat::FinishReason::kLength);
}

TEST(Service, ST_15_an_engine_that_ends_fails_what_runs) {
  for (const std::string end : {"error", "vanish", "crash"}) {
    Fixture f(R"({"replies": [{"pieces": ["a"], "error": "broken", "finish": ")" + end + "\"}]}");
    const auto r = f.run(ask("hi"));
    EXPECT_EQ(r->text(), "a") << end;
    EXPECT_EQ(r->failure_, Code::kInternal) << end;
    EXPECT_EQ(f.service.counters().failed, 1u) << end;
    EXPECT_EQ(f.service.counters().running, 0u) << end;
  }
}

TEST(Service, defaults_of_the_model_stand_behind_the_request) {
  Fixture f(R"({"defaults": {"temperature": 0.25, "top_k": 7}, "replies": [{"report": true}]})");
  chat::Request request = ask("hi");
  request.sampling.top_k = 3;
  const base::Json report = base::parse_json(f.run(request)->text(), "report");
  EXPECT_EQ(report["temperature"], 0.25);
  EXPECT_EQ(report["top_k"], 3);
  EXPECT_EQ(report["top_p"], 1.0) << "built in";
}

TEST(Service, the_model_answers_to_its_names) {
  Fixture f(R"({"model": "org/m", "names": ["m"], "replies": [{"pieces": ["a"]}]})");
  for (const char* name : {"", "default", "org/m", "m"}) EXPECT_EQ(f.service.model(name).id, "org/m") << name;
  try {
    f.service.model("other");
    FAIL();
  } catch (const base::Error& error) {
    EXPECT_EQ(error.code(), Code::kNotFound);
    EXPECT_EQ(error.param(), "model");
  }
}

TEST(Service, a_full_engine_queue_is_overload) {
  Fixture f(
      R"({"max_num_seqs": 1, "max_queue": 1, "replies": [{"pieces": ["a", "b"], "delays_ms": [0, 60000]}]})");
  const auto first = std::make_shared<Recorder>();
  f.service.submit(ask("hi"), first);
  ASSERT_TRUE(first->wait_text("a"));
  chat::Request request = ask("hi");
  request.n = 2;  // one finds room in the queue, the other does not
  EXPECT_EQ(f.run(request)->failure_, Code::kOverloaded);
  while (f.service.counters().refused == 0) std::this_thread::yield();
  EXPECT_EQ(f.service.counters().running, 1u) << "the half that was queued is taken back";
}

TEST(Service, a_request_is_cancelled_by_its_id) {
  Fixture f(R"({"max_num_seqs": 1, "replies": [{"pieces": ["a", "b"], "delays_ms": [0, 60000]}]})");
  chat::Request first = ask("hi"), second = ask("hi");
  first.id = "one";
  second.id = "two";
  const auto running = std::make_shared<Recorder>(), waiting = std::make_shared<Recorder>();
  f.service.submit(std::move(first), running);
  ASSERT_TRUE(running->wait_text("a"));
  f.service.submit(std::move(second), waiting);
  while (f.service.engine_counters().waiting == 0) std::this_thread::yield();
  EXPECT_FALSE(f.service.cancel("three"));
  EXPECT_TRUE(f.service.cancel("two"));
  ASSERT_TRUE(waiting->wait_end());
  EXPECT_EQ(waiting->failure_, Code::kCancelled) << "its client hears of it";
  EXPECT_FALSE(running->ended_);
  EXPECT_TRUE(f.service.cancel("one"));
  ASSERT_TRUE(running->wait_end());
  EXPECT_EQ(running->failure_, Code::kCancelled);
  ASSERT_TRUE(f.service.wait_idle(20000));
  EXPECT_EQ(f.service.counters().cancelled, 2u);
  EXPECT_EQ(f.service.counters().cancelled_via_disconnect, 0u);
  EXPECT_FALSE(f.service.cancel("one")) << "it has ended";
}

TEST(Service, a_server_that_is_quiesced_refuses_and_goes_on_with_what_runs) {
  Fixture f(
      R"({"replies": [{"match": "slow", "pieces": ["a", "b"], "delays_ms": [0, 200]}, {"pieces": ["x"]}]})");
  const auto recorder = std::make_shared<Recorder>();
  f.service.submit(ask("slow"), recorder);
  ASSERT_TRUE(recorder->wait_text("a"));
  f.service.lifecycle().quiesce();
  try {
    f.service.submit(ask("hi"), std::make_shared<Recorder>());
    FAIL();
  } catch (const base::Error& error) {
    EXPECT_EQ(error.code(), Code::kUnavailable);
  }
  ASSERT_TRUE(recorder->wait_end());
  EXPECT_EQ(recorder->text(), "ab");
  f.service.lifecycle().resume();
  EXPECT_EQ(f.run(ask("hi"))->text(), "x");
}

/// Two scripted models: "m" at hand, "late" behind a gate that a test opens, with a model or an error.
struct LateFixture {
  LateFixture() {
    const auto scripted = [](const std::string& name) {
      return make_scripted_model(
          parse_script(R"({"model": ")" + name + R"(", "replies": [{"report": true}]})"));
    };
    std::vector<pool::ModelSource> sources;
    sources.push_back({"m", {}, [scripted] { return scripted("m"); }, 0});
    sources.push_back({"late",
                       {},
                       [this, scripted] {
                         if (auto error = gate.get_future().get()) std::rethrow_exception(error);
                         return scripted("late");
                       },
                       0});
    ServiceOptions options;
    options.profiles["hot"].temperature = 1.5f;
    service = std::make_unique<Service>(std::make_shared<pool::ModelPool>(std::move(sources)), options);
  }

  std::shared_ptr<Recorder> submit(const std::string& model, chat::Request request = ask("hi")) {
    auto recorder = std::make_shared<Recorder>();
    request.model = model;
    request.id = model;
    service->submit(std::move(request), recorder);
    return recorder;
  }

  std::promise<std::exception_ptr> gate;
  std::unique_ptr<Service> service;
};

TEST(Service, a_request_waits_for_its_model_and_others_do_not) {
  LateFixture f;
  const auto late = f.submit("late");
  const auto other = f.submit("m");  // its own load waits behind the other's
  EXPECT_FALSE(late->ended_);
  EXPECT_EQ(f.service->counters().running, 2u);
  f.gate.set_value(nullptr);
  ASSERT_TRUE(late->wait_end());
  EXPECT_TRUE(late->done_);
  ASSERT_TRUE(other->wait_end());
  EXPECT_EQ(f.service->engine_counters().finished, 2u);
}

TEST(Service, a_model_that_does_not_load_is_no_fault_of_the_request) {
  LateFixture f;
  const auto late = f.submit("late");
  f.gate.set_value(
      std::make_exception_ptr(base::Error(Code::kInvalidRequest, "[x.y] expected weights; got none")));
  ASSERT_TRUE(late->wait_end());
  EXPECT_EQ(late->failure_, Code::kInternal);
  ASSERT_TRUE(f.service->wait_idle(20000));
  EXPECT_EQ(f.service->counters().failed, 1u);
  EXPECT_FALSE(f.service->cancel("late")) << "it is forgotten";
}

TEST(Service, what_can_be_seen_at_once_is_seen_when_the_model_is_there) {
  LateFixture f;
  chat::Request request = ask("hi");
  request.sampling.logit_bias = {{1000000, 1.0f}};
  const auto late = f.submit("late", request);
  f.gate.set_value(nullptr);
  ASSERT_TRUE(late->wait_end());
  EXPECT_EQ(late->failure_, Code::kInvalidRequest);
  ASSERT_TRUE(f.service->wait_idle(20000));
  EXPECT_EQ(f.service->counters().refused, 1u);
  while (f.service->pool().list()[1].leases > 0) std::this_thread::yield();
}

TEST(Service, CX_06_a_request_that_is_cancelled_while_its_model_loads_never_runs) {
  LateFixture f;
  const auto late = f.submit("late");
  EXPECT_TRUE(f.service->cancel("late"));
  ASSERT_TRUE(late->wait_end()) << "at once, not when the model is there";
  EXPECT_EQ(late->failure_, Code::kCancelled);
  ASSERT_TRUE(f.service->wait_idle(20000));
  EXPECT_EQ(f.service->counters().cancelled, 1u);
  EXPECT_EQ(f.service->telemetry().last().at(0).outcome, Outcome::kCancelled);
  f.gate.set_value(nullptr);
  while (f.service->pool().list()[1].loading) std::this_thread::yield();  // if it had begun
  EXPECT_EQ(f.service->pool().list()[1].leases, 0u);
  EXPECT_EQ(f.service->engine_counters().submitted, 0u);
}

TEST(Service, cancels_that_meet_the_end_of_a_load_end_each_request_once) {
  for (int i = 0; i < 50; ++i) {
    LateFixture f;
    std::vector<std::shared_ptr<Generation>> generations;
    for (int k = 0; k < 4; ++k) {
      chat::Request request = ask("hi");
      request.model = "late";
      request.id = std::to_string(k);
      generations.push_back(f.service->submit(std::move(request), std::make_shared<Recorder>()));
    }
    std::thread opener([&] { f.gate.set_value(nullptr); });
    for (const auto& generation : generations) generation->cancel(Generation::Why::kDisconnected);
    opener.join();
    ASSERT_TRUE(f.service->wait_idle(20000));
    const Counters c = f.service->counters();
    EXPECT_EQ(c.cancelled + c.finished, 4u);
    EXPECT_EQ(c.running, 0u);
  }
}

TEST(Service, a_profile_fills_what_the_request_leaves_open) {
  LateFixture f;
  const auto temperature = [&](const std::string& model, std::optional<float> asked) {
    chat::Request request = ask("hi");
    request.sampling.temperature = asked;
    const auto recorder = f.submit(model, request);
    EXPECT_TRUE(recorder->wait_end());
    return base::parse_json(recorder->text(), "report")["temperature"].get<double>();
  };
  EXPECT_EQ(temperature("m", {}), 1.0);
  EXPECT_EQ(temperature("m:hot", {}), 1.5);
  EXPECT_EQ(temperature(":hot", {}), 1.5);
  EXPECT_EQ(temperature("m:hot", 0.5f), 0.5);
  EXPECT_THROW(f.submit("m:cold"), base::Error);
  EXPECT_THROW(f.submit("other:hot"), base::Error);
}

TEST(Service, stop_fails_what_runs_and_refuses_what_comes) {
  Fixture f(R"({"replies": [{"pieces": ["a", "b"], "delays_ms": [0, 60000]}]})");
  const auto recorder = std::make_shared<Recorder>();
  f.service.submit(ask("hi"), recorder);
  ASSERT_TRUE(recorder->wait_text("a"));
  f.service.stop();
  EXPECT_EQ(recorder->failure_, Code::kUnavailable);
  EXPECT_THROW(f.service.submit(ask("hi"), recorder), base::Error);
}

}  // namespace
}  // namespace penstock::serve
