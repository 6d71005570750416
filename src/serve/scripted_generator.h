// An engine that plays a script: one piece per sequence and step, on its own thread, with queue, batch,
// max_tokens, cancellation and counters as the real one has them. For tests without a model.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "engine/generator.h"
#include "serve/script.h"
#include "serve/scripted_codec.h"

namespace penstock::serve {

class ScriptedGenerator : public engine::Generator {
 public:
  ScriptedGenerator(Script script, std::shared_ptr<const ScriptedCodec> codec);
  ~ScriptedGenerator() override;  // stop()

  using engine::Generator::submit;
  std::vector<uint64_t> submit(engine::Job job, std::vector<engine::Member> members) override;
  void cancel(uint64_t id) override;
  engine::Counters counters() const override;
  bool is_full() const override;
  void clear_cache() override {}
  /// It computes nothing that could be kept.
  void cache(engine::CacheWish, engine::OnCache on_done) override { on_done(engine::CacheState{}); }
  void stop() override;

 private:
  using Clock = std::chrono::steady_clock;
  struct Sequence {
    uint64_t id = 0;
    engine::Job job;
    std::shared_ptr<engine::Sink> sink;
    std::unique_ptr<engine::TokenGuide> guide;
    const ScriptedReply* reply = nullptr;
    std::vector<ScriptedPiece> pieces;
    size_t next = 0;
    std::vector<engine::Token> undelivered;
    Clock::time_point submitted, admitted, first, due;
    engine::Receipt receipt;
  };

  void run();
  void loop();
  const ScriptedReply& choose(const std::string& prompt);
  void admit_locked();
  void take_cancelled_locked(std::vector<Sequence>& ended);
  void step();
  bool advance(Sequence& sequence);
  bool refused(Sequence& sequence, int32_t token);
  static std::chrono::milliseconds delay_of_next(const Sequence& sequence);
  Clock::time_point on_tick(Clock::time_point time) const;
  bool end(Sequence& sequence, engine::Finish finish);
  engine::Token token_of(const Sequence& sequence, const ScriptedPiece& piece) const;
  void fail_all(const std::string& error);

  bool is_gathering();

  const Script script_;
  const std::shared_ptr<const ScriptedCodec> codec_;
  std::vector<Sequence> running_;  // of the thread
  bool gathered_ = false;          // of the thread

  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Sequence> waiting_;
  std::set<uint64_t> cancelled_;
  engine::Counters counters_;
  uint64_t next_id_ = 1;
  size_t next_reply_ = 0;
  bool stopped_ = false;
  std::thread thread_;
};

/// A ready model that plays the script.
std::shared_ptr<const pool::Model> make_scripted_model(const Script& script);

}  // namespace penstock::serve
