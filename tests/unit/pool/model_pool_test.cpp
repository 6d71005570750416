#include "pool/model_pool.h"

#include <atomic>
#include <future>
#include <set>

#include <gtest/gtest.h>

#include "base/error.h"
#include "pool/memory_guard.h"

namespace penstock::pool {
namespace {

using base::Code;
using base::Error;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

/// An engine that does nothing and counts a job.
class IdleGenerator : public engine::Generator {
 public:
  explicit IdleGenerator(std::atomic<int>& stopped) : stopped_(stopped) {}
  using engine::Generator::submit;
  std::vector<uint64_t> submit(engine::Job, std::vector<engine::Member>) override { return {}; }
  void cancel(uint64_t) override {}
  engine::Counters counters() const override {
    engine::Counters counters;
    counters.finished = 1;
    counters.blocks_total = 10;
    counters.drafts[0].accepted = 3;
    return counters;
  }
  void clear_cache() override {}
  void cache(engine::CacheWish, engine::OnCache) override {}
  void stop() override {
    if (!was_stopped_.exchange(true)) ++stopped_;
  }

 private:
  std::atomic<int>& stopped_;
  std::atomic<bool> was_stopped_ = false;
};

/// Models a, b, c ... with a loader that counts, and that a test may hold up or make fail.
struct Fixture {
  explicit Fixture(PoolOptions options = {}, const std::string& ids = "abc") {
    std::vector<ModelSource> sources;
    for (const char id : ids) {
      const std::string name(1, id);
      sources.push_back({name, {"org/" + name}, [this, name] { return load(name); }, 100});
    }
    options.now = [this] { return now.load(); };
    pool = std::make_unique<ModelPool>(std::move(sources), std::move(options));
  }

  std::shared_ptr<const Model> load(const std::string& name) {
    std::unique_lock lock(mutex);
    ++loads[name];
    opened.wait(lock, [&] { return held.count(name) == 0; });
    if (errors.count(name) != 0) std::rethrow_exception(errors[name]);
    auto model = std::make_shared<Model>();
    model->id = name;
    model->executor = "idle";
    model->generator = std::make_shared<IdleGenerator>(stopped);
    return model;
  }

  void hold(const std::string& name) {
    const std::lock_guard lock(mutex);
    held.insert(name);
  }
  void let_go(const std::string& name) {
    const std::lock_guard lock(mutex);
    held.erase(name);
    opened.notify_all();
  }
  void set_error(const std::string& name, std::exception_ptr error) {
    const std::lock_guard lock(mutex);
    if (error)
      errors[name] = error;
    else
      errors.erase(name);
  }
  int loads_of(const std::string& name) {
    const std::lock_guard lock(mutex);
    return loads[name];
  }

  std::future<Lease> ask(const std::string& name) {
    auto promise = std::make_shared<std::promise<Lease>>();
    pool->lease(pool->id_of(name), [promise](Lease lease, std::exception_ptr error) {
      if (error)
        promise->set_exception(error);
      else
        promise->set_value(std::move(lease));
    });
    return promise->get_future();
  }
  Lease get(const std::string& name) { return ask(name).get(); }

  std::future<void> unload(const std::string& name) {
    auto promise = std::make_shared<std::promise<void>>();
    pool->unload(name, [promise](std::exception_ptr error) {
      if (error)
        promise->set_exception(error);
      else
        promise->set_value();
    });
    return promise->get_future();
  }
  void pin(const std::string& name, bool pinned) {
    std::promise<void> done;
    pool->load(name, pinned, [&](std::exception_ptr) { done.set_value(); });
    done.get_future().wait();
  }

  std::string loaded() const {
    std::string ids;
    for (const ModelEntry& entry : pool->list()) {
      if (entry.loaded) ids += entry.id;
    }
    return ids;
  }
  bool becomes(const std::string& ids) const {
    const auto until = steady_clock::now() + std::chrono::seconds(20);
    while (loaded() != ids && steady_clock::now() < until) std::this_thread::sleep_for(milliseconds(1));
    return loaded() == ids;
  }
  void advance(int ms) { now = now.load() + milliseconds(ms); }

  std::atomic<steady_clock::time_point> now = steady_clock::time_point(std::chrono::hours(1));
  std::atomic<int> stopped = 0;
  std::mutex mutex;
  std::condition_variable opened;
  std::map<std::string, int> loads;
  std::set<std::string> held;
  std::map<std::string, std::exception_ptr> errors;
  std::unique_ptr<ModelPool> pool;
};

template <class T>
bool is_ready(const std::future<T>& future, int ms = 20000) {
  return future.wait_for(milliseconds(ms)) == std::future_status::ready;
}

bool eventually_stopped(const Fixture& f, int count) {
  const auto until = steady_clock::now() + std::chrono::seconds(20);
  while (f.stopped != count && steady_clock::now() < until) std::this_thread::sleep_for(milliseconds(1));
  return f.stopped == count;
}

template <class Call>
Code code_of(Call call) {
  try {
    call();
  } catch (const Error& error) {
    return error.code();
  }
  return Code::kInternal;
}

TEST(ModelPool, models_answer_to_their_names_and_the_first_to_none) {
  Fixture f;
  EXPECT_EQ(f.pool->id_of(""), "a");
  EXPECT_EQ(f.pool->id_of("default"), "a");
  EXPECT_EQ(f.pool->id_of("org/b"), "b");
  EXPECT_EQ(code_of([&] { f.pool->id_of("d"); }), Code::kNotFound);
  const auto source = [](std::string id, std::vector<std::string> names) {
    return ModelSource{std::move(id), std::move(names), {}, 0};
  };
  EXPECT_THROW(ModelPool({}), Error);
  EXPECT_THROW(ModelPool({source("a", {}), source("b", {"a"})}), Error);
  EXPECT_THROW(ModelPool({source("a", {"a"})}), Error);
  EXPECT_THROW(ModelPool({source("a", {""})}), Error);
  EXPECT_THROW(ModelPool({source("default", {})}), Error);
}

TEST(ModelPool, requests_that_come_at_once_load_a_model_once) {
  Fixture f;
  f.hold("b");
  std::vector<std::future<Lease>> asked(8);
  std::vector<std::thread> threads;
  for (auto& one : asked) threads.emplace_back([&] { one = f.ask("b"); });
  for (auto& thread : threads) thread.join();
  EXPECT_FALSE(is_ready(asked[0], 20));
  EXPECT_EQ(f.pool->try_lease("b"), nullptr);
  EXPECT_TRUE(f.pool->list()[1].loading);
  f.let_go("b");
  for (auto& one : asked) EXPECT_EQ(one.get()->id, "b");
  EXPECT_EQ(f.loads_of("b"), 1);
  EXPECT_EQ(f.loads_of("a"), 0) << "nobody asked";
  EXPECT_NE(f.pool->try_lease("b"), nullptr);
}

TEST(ModelPool, a_loaded_model_answers_while_another_is_loaded) {
  Fixture f;
  f.get("a");
  f.hold("b");
  const auto b = f.ask("b");
  while (f.loads_of("b") == 0) std::this_thread::yield();
  EXPECT_NE(f.pool->try_lease("a"), nullptr);
  EXPECT_TRUE(is_ready(f.ask("a"), 0)) << "without the loader thread";
  f.let_go("b");
  EXPECT_TRUE(is_ready(b));
}

TEST(ModelPool, room_is_made_by_the_one_that_was_used_least_recently) {
  Fixture f({.max_loaded = 2});
  f.get("a");
  f.advance(10);
  f.get("b");
  f.advance(10);
  f.get("a");
  f.advance(10);
  f.get("c");
  EXPECT_EQ(f.loaded(), "ac");
  EXPECT_EQ(f.stopped, 1) << "the engine of b";
  f.get("b");
  EXPECT_EQ(f.loaded(), "bc");
}

TEST(ModelPool, a_model_that_is_leased_or_pinned_is_never_unloaded_for_room) {
  Fixture f({.max_loaded = 2});
  Lease a = f.get("a");
  f.advance(10);
  f.get("b");
  f.get("c");
  EXPECT_EQ(f.loaded(), "ac") << "a is older, and in use";
  EXPECT_NE(f.pool->try_lease("a"), nullptr) << "and not on its way out either";
  f.pin("c", true);
  auto b = f.ask("b");
  EXPECT_FALSE(is_ready(b, 250)) << "no room yet";
  EXPECT_EQ(f.loaded(), "ac");
  a.reset();
  EXPECT_EQ(b.get()->id, "b");
  EXPECT_EQ(f.loaded(), "bc");
  f.pin("b", true);
  EXPECT_EQ(code_of([&] { f.get("a"); }), Code::kUnavailable) << "at once: no room can come";
  f.pin("b", false);
  f.get("a");
  EXPECT_EQ(f.loaded(), "ac");
}

TEST(ModelPool, who_waits_for_room_too_long_hears_of_it) {
  Fixture f({.max_loaded = 1, .room_wait_ms = 5000});
  const Lease a = f.get("a");
  auto b = f.ask("b");
  EXPECT_FALSE(is_ready(b, 20));
  f.advance(5001);
  EXPECT_EQ(code_of([&] { b.get(); }), Code::kUnavailable);
  EXPECT_EQ(f.loads_of("b"), 0);
}

TEST(ModelPool, room_is_memory_too) {
  std::atomic<uint64_t> available = 1000;
  Fixture f({.available_bytes = [&] { return available.load(); }});
  f.get("a");
  f.advance(1);
  f.get("b");
  EXPECT_EQ(f.loaded(), "ab");
  available = 99;  // one byte less than it needs, whatever is unloaded
  f.get("c");
  EXPECT_EQ(f.loaded(), "c") << "alone it is tried";
}

TEST(ModelPool, a_load_that_finds_no_memory_is_tried_again_with_more_room) {
  Fixture f;
  f.get("a");
  f.set_error("b", std::make_exception_ptr(NoMemory("[x.y] expected more; got less")));
  EXPECT_EQ(code_of([&] { f.get("b"); }), Code::kUnavailable);
  EXPECT_EQ(f.loads_of("b"), 2) << "once more without a";
  EXPECT_EQ(f.loaded(), "");
}

TEST(ModelPool, a_failed_load_is_told_to_all_who_wait_and_tried_again_for_the_next) {
  Fixture f;
  f.hold("b");
  f.set_error("b", std::make_exception_ptr(Error(Code::kCorrupt, "[x.y] expected weights; got none")));
  auto first = f.ask("b"), second = f.ask("b");
  f.let_go("b");
  EXPECT_EQ(code_of([&] { first.get(); }), Code::kCorrupt);
  EXPECT_EQ(code_of([&] { second.get(); }), Code::kCorrupt);
  EXPECT_EQ(f.loads_of("b"), 1);
  f.set_error("b", nullptr);
  EXPECT_EQ(f.get("b")->id, "b");
}

TEST(ModelPool, an_idle_model_is_unloaded_after_its_time) {
  Fixture f({.idle_ttl_ms = 1000});
  const Lease a = f.get("a");
  f.get("b");
  f.get("c");
  f.pin("c", true);
  f.advance(999);
  f.get("b");
  f.advance(999);
  std::this_thread::sleep_for(milliseconds(250));
  EXPECT_EQ(f.loaded(), "abc") << "b was used in between";
  f.advance(1);
  EXPECT_TRUE(f.becomes("ac")) << "a is in use, c pinned";
}

TEST(ModelPool, unload_waits_for_leases_and_new_requests_load_again) {
  Fixture f;
  Lease a = f.get("a");
  f.pin("a", true);
  const auto gone = f.unload("a");
  EXPECT_FALSE(is_ready(gone, 50)) << "it is in use";
  EXPECT_EQ(f.pool->try_lease("a"), nullptr);
  auto next = f.ask("a");
  EXPECT_FALSE(is_ready(next, 50));
  EXPECT_EQ(a->id, "a");
  a.reset();
  ASSERT_TRUE(is_ready(gone));
  EXPECT_EQ(next.get()->id, "a");
  EXPECT_EQ(f.loads_of("a"), 2);
  EXPECT_FALSE(f.pool->list()[0].pinned);
  EXPECT_TRUE(is_ready(f.unload("b"), 0)) << "it is not loaded";
}

TEST(ModelPool, who_withdraws_is_not_called_and_what_nobody_waits_for_is_not_loaded) {
  Fixture f;
  f.hold("a");
  auto a = f.ask("a");
  while (f.loads_of("a") == 0) std::this_thread::yield();
  std::atomic<int> called = 0;
  const auto count = [&](const Lease&, const std::exception_ptr&) { ++called; };
  const uint64_t under_way = f.pool->lease("a", count), behind = f.pool->lease("b", count);
  EXPECT_TRUE(f.pool->withdraw("b", behind));
  EXPECT_FALSE(f.pool->withdraw("b", behind)) << "once";
  EXPECT_FALSE(f.pool->list()[1].loading);
  EXPECT_TRUE(f.pool->withdraw("a", under_way));
  EXPECT_TRUE(f.pool->list()[0].loading) << "another one waits";
  auto c = f.ask("c");
  f.let_go("a");
  EXPECT_EQ(a.get()->id, "a");
  EXPECT_EQ(c.get()->id, "c");
  EXPECT_EQ(f.loads_of("b"), 0);
  EXPECT_EQ(called, 0);
  EXPECT_FALSE(f.pool->withdraw("a", f.pool->lease("a", count))) << "it was called at once";
  EXPECT_EQ(called, 1);
}

TEST(ModelPool, counters_keep_what_unloaded_models_did) {
  Fixture f;
  f.get("a");
  f.get("b");
  EXPECT_EQ(f.pool->counters().finished, 2u);
  EXPECT_EQ(f.pool->counters().blocks_total, 20u);
  f.unload("a").wait();
  EXPECT_EQ(f.pool->counters().finished, 2u);
  EXPECT_EQ(f.pool->counters().drafts[0].accepted, 6u);
  EXPECT_EQ(f.pool->counters().blocks_total, 10u) << "what there is now";
}

TEST(ModelPool, a_released_pool_keeps_what_is_pinned) {
  Fixture f;
  f.get("a");
  f.get("b");
  f.pin("b", true);
  f.pool->release();
  EXPECT_TRUE(f.becomes("b"));
}

TEST(ModelPool, stop_fails_who_waits_and_leases_outlive_the_pool) {
  Fixture f({.max_loaded = 1});
  const Lease a = f.get("a");
  auto b = f.ask("b");
  f.pool->stop();
  EXPECT_EQ(code_of([&] { b.get(); }), Code::kUnavailable);
  EXPECT_EQ(f.stopped, 1);
  EXPECT_EQ(code_of([&] { f.get("a"); }), Code::kUnavailable);
  f.pool.reset();
  EXPECT_EQ(a->id, "a");
}

TEST(ModelPool, many_threads_and_models_with_room_for_two) {
  Fixture f({.max_loaded = 2}, "abcde");
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 100; ++i) {
        const std::string name(1, static_cast<char>('a' + (i * 7 + t * 3) % 5));
        if (f.get(name)->id != name) ++wrong;
        if (f.loaded().size() > 2) ++wrong;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  for (const ModelEntry& entry : f.pool->list()) EXPECT_EQ(entry.leases, 0u) << entry.id;
}

ModelSource extra(Fixture& f, const std::string& name, std::vector<std::string> names = {}) {
  return {name, std::move(names), [&f, name] { return f.load(name); }, 100};
}

TEST(ModelPool, a_time_of_its_own_counts_from_its_last_use) {
  Fixture f;  // the pool itself keeps models for ever
  f.get("a").reset();
  f.get("b").reset();
  f.pool->keep("a", milliseconds(1000));
  EXPECT_EQ(f.pool->list()[0].expires_in, milliseconds(1000));
  EXPECT_FALSE(f.pool->list()[1].expires_in);
  f.advance(600);
  EXPECT_EQ(f.pool->list()[0].expires_in, milliseconds(400));
  f.get("a").reset();
  f.advance(600);
  EXPECT_EQ(f.loaded(), "ab");
  f.advance(600);
  EXPECT_TRUE(f.becomes("b"));
}

TEST(ModelPool, a_time_of_zero_unloads_it_when_its_last_user_lets_go) {
  Fixture f;
  Lease first = f.get("a"), second = f.get("a");
  f.pool->keep("a", milliseconds(0));
  first.reset();
  std::this_thread::sleep_for(milliseconds(20));
  EXPECT_EQ(f.loaded(), "a");
  second.reset();
  EXPECT_TRUE(f.becomes(""));
}

TEST(ModelPool, for_ever_is_a_pin_that_another_time_or_an_unload_takes_back) {
  PoolOptions options;
  options.max_loaded = 1;
  options.room_wait_ms = 0;
  options.idle_ttl_ms = 10;
  Fixture f(std::move(options));
  f.get("a").reset();
  f.pool->keep("a", kForever);
  EXPECT_TRUE(f.pool->list()[0].pinned);
  f.advance(1000);
  EXPECT_EQ(code_of([&] { f.get("b"); }), Code::kUnavailable);
  f.pool->keep("a", milliseconds(500));
  f.get("b").reset();
  EXPECT_TRUE(f.becomes("b"));
  f.pool->keep("b", kForever);
  f.unload("b").get();
  EXPECT_FALSE(f.pool->list()[1].pinned);
}

TEST(ModelPool, models_and_names_come_and_go) {
  Fixture f({}, "a");
  f.pool->add(extra(f, "x", {"org/x"}));
  EXPECT_EQ(f.pool->id_of("org/x"), "x");
  EXPECT_EQ(f.get("x")->id, "x");
  EXPECT_EQ(code_of([&] { f.pool->add(extra(f, "y", {"a"})); }), Code::kInvalidRequest);
  f.pool->add_name("x", "other");
  EXPECT_EQ(code_of([&] { f.pool->add_name("x", "a"); }), Code::kInvalidRequest);
  EXPECT_EQ(f.pool->id_of("other"), "x");
  f.pool->remove_name("x", "other");
  EXPECT_EQ(code_of([&] { f.pool->id_of("other"); }), Code::kNotFound);

  Lease held = f.get("x");
  f.pool->remove("x");
  EXPECT_EQ(code_of([&] { f.pool->id_of("x"); }), Code::kNotFound);
  EXPECT_EQ(code_of([&] { f.pool->try_lease("x"); }), Code::kNotFound);
  EXPECT_EQ(f.pool->list().size(), 1u);
  EXPECT_EQ(held->id, "x");
  held.reset();
  EXPECT_TRUE(eventually_stopped(f, 1));

  f.pool->add(extra(f, "x"));  // the name is free again
  EXPECT_EQ(f.get("x")->id, "x");
  EXPECT_EQ(f.loads_of("x"), 2);
}

TEST(ModelPool, the_first_that_is_left_is_the_default) {
  Fixture f({}, "ab");
  f.pool->remove("a");
  EXPECT_EQ(f.pool->id_of(""), "b");
  f.pool->remove("b");
  EXPECT_EQ(code_of([&] { f.pool->id_of(""); }), Code::kNotFound);
}

TEST(ModelPool, a_model_that_is_loading_is_not_removed) {
  Fixture f;
  f.hold("b");
  auto lease = f.ask("b");
  EXPECT_EQ(code_of([&] { f.pool->remove("b"); }), Code::kUnavailable);
  f.let_go("b");
  EXPECT_EQ(lease.get()->id, "b");
}

}  // namespace
}  // namespace penstock::pool
