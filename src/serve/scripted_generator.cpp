#include "serve/scripted_generator.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "base/error.h"
#include "base/unix_time.h"

namespace penstock::serve {
namespace {

using base::Code;
using base::Error;
using base::Json;
using engine::Finish;

double ms_between(std::chrono::steady_clock::time_point from, std::chrono::steady_clock::time_point to) {
  return std::chrono::duration<double, std::milli>(to - from).count();
}

/// The job as the engine got it, for tests of what reaches the engine.
std::string report_of(const engine::Job& job, const std::string& prompt) {
  Json biases = Json::array();
  for (const ops::Bias& bias : job.biases) biases.push_back({bias.token, bias.value});
  const ops::SampleParams& p = job.params;
  const Json report = {{"prompt", prompt},
                       {"prompt_ids", job.prompt},
                       {"max_tokens", job.max_tokens},
                       {"temperature", p.temperature},
                       {"top_k", p.top_k},
                       {"top_p", p.top_p},
                       {"min_p", p.min_p},
                       {"repetition_penalty", p.repetition_penalty},
                       {"presence_penalty", p.presence_penalty},
                       {"frequency_penalty", p.frequency_penalty},
                       {"seed", p.seed},
                       {"logit_bias", biases},
                       {"stop_ids", job.stop_ids},
                       {"top_logprobs", job.top_logprobs}};
  return report.dump(-1, ' ', false, Json::error_handler_t::replace);
}

/// Whether a sequence with these pieces starts again at its end: it would stop, and the job asks to go on.
bool starts_again(const engine::Job& job, const ScriptedReply& reply,
                  const std::vector<ScriptedPiece>& pieces) {
  return job.stop_ids.empty() && reply.end == ScriptedEnd::kStop && !pieces.empty();
}

std::vector<ScriptedPiece> bytes_of(const std::string& text) {
  std::vector<ScriptedPiece> pieces;
  for (const char c : text) pieces.push_back({std::string(1, c), 0, -0.5f, {}});
  return pieces;
}

}  // namespace

ScriptedGenerator::ScriptedGenerator(Script script, std::shared_ptr<const ScriptedCodec> codec)
    : script_(std::move(script)), codec_(std::move(codec)), thread_([this] { run(); }) {}

ScriptedGenerator::~ScriptedGenerator() {
  stop();
}

bool ScriptedGenerator::is_full() const {
  const std::lock_guard lock(mutex_);
  return waiting_.size() >= static_cast<size_t>(script_.max_queue);
}

std::vector<uint64_t> ScriptedGenerator::submit(engine::Job job, std::vector<engine::Member> members) {
  const std::string prompt = codec_->text_of(job.prompt);
  const auto length = static_cast<int32_t>(job.prompt.size());
  const std::lock_guard lock(mutex_);
  if (stopped_)
    throw Error(Code::kUnavailable, "[serve.scripted] expected a running engine; got a stopped one");
  for (const int32_t id : job.prompt) {
    if (id >= 0 && id < codec_->vocab_size()) continue;
    throw Error(Code::kInvalidRequest,
                "[serve.scripted] expected ids of the vocabulary; got " + std::to_string(id), "prompt");
  }
  if (length >= script_.context_length) {
    throw Error(Code::kContextLength, "[serve.scripted] expected a prompt that fits the context");
  }
  if (waiting_.size() + members.size() > static_cast<size_t>(script_.max_queue)) {
    ++counters_.refused;
    throw Error(Code::kOverloaded, "[serve.scripted] expected room in the queue; got a full one");
  }
  job.max_tokens = std::min(job.max_tokens, script_.context_length - length);
  std::vector<uint64_t> ids;
  for (engine::Member& member : members) {
    Sequence sequence;
    job.params.seed = member.seed;
    sequence.id = next_id_++;
    sequence.reply = &choose(prompt);
    sequence.pieces = sequence.reply->report ? bytes_of(report_of(job, prompt)) : sequence.reply->pieces;
    sequence.job = job;
    sequence.sink = std::move(member.sink);
    sequence.guide = std::move(member.guide);
    sequence.submitted = Clock::now();
    sequence.receipt.prompt_tokens = length;
    sequence.receipt.cached_tokens = sequence.reply->cached_tokens;
    sequence.receipt.executor = "scripted";
    ++counters_.submitted;
    ids.push_back(sequence.id);
    waiting_.push_back(std::move(sequence));
  }
  wake_.notify_all();
  return ids;
}

const ScriptedReply& ScriptedGenerator::choose(const std::string& prompt) {
  std::vector<const ScriptedReply*> in_turn;
  for (const ScriptedReply& reply : script_.replies) {
    if (reply.match.empty()) {
      in_turn.push_back(&reply);
    } else if (prompt.find(reply.match) != std::string::npos) {
      return reply;
    }
  }
  if (in_turn.empty()) return script_.replies.front();
  return *in_turn[next_reply_++ % in_turn.size()];
}

void ScriptedGenerator::cancel(uint64_t id) {
  const std::lock_guard lock(mutex_);
  cancelled_.insert(id);
  wake_.notify_all();
}

engine::Counters ScriptedGenerator::counters() const {
  const std::lock_guard lock(mutex_);
  engine::Counters now = counters_;
  now.waiting = waiting_.size();
  return now;
}

void ScriptedGenerator::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
    wake_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

void ScriptedGenerator::run() {
  std::string error;
  try {
    loop();
  } catch (const std::exception& thrown) {
    error = thrown.what();
  }
  fail_all(error);
}

void ScriptedGenerator::loop() {
  while (true) {
    std::vector<Sequence> ended;
    {
      std::unique_lock lock(mutex_);
      if (stopped_) return;
      take_cancelled_locked(ended);
      admit_locked();
      if (ended.empty() && is_gathering()) {
        wake_.wait(lock);
        continue;
      }
      const auto soonest = std::min_element(running_.begin(), running_.end(),
                                            [](const auto& a, const auto& b) { return a.due < b.due; });
      auto wake = soonest->due;
      for (const Sequence& s : running_) wake = std::min(wake, s.job.deadline.value_or(wake));
      if (ended.empty() && wake > Clock::now()) {
        wake_.wait_until(lock, wake);
        continue;
      }
    }
    for (Sequence& sequence : ended) end(sequence, Finish::kCancelled);
    step();
  }
}

/// Whether an engine that was idle still waits for company.
bool ScriptedGenerator::is_gathering() {
  if (running_.empty()) gathered_ = false;
  if (running_.size() >= static_cast<size_t>(script_.gather)) gathered_ = true;
  return !gathered_;
}

void ScriptedGenerator::admit_locked() {
  while (!waiting_.empty() && running_.size() < static_cast<size_t>(script_.max_num_seqs)) {
    Sequence sequence = std::move(waiting_.front());
    waiting_.pop_front();
    sequence.admitted = sequence.first = Clock::now();
    sequence.due = on_tick(sequence.admitted + delay_of_next(sequence));
    counters_.prompt_tokens += sequence.job.prompt.size();
    running_.push_back(std::move(sequence));
  }
  counters_.running = running_.size();
}

void ScriptedGenerator::take_cancelled_locked(std::vector<Sequence>& ended) {
  const auto take_from = [&](auto& sequences) {
    for (auto it = sequences.begin(); it != sequences.end();) {
      if (cancelled_.count(it->id) == 0) {
        ++it;
        continue;
      }
      ended.push_back(std::move(*it));
      it = sequences.erase(it);
    }
  };
  take_from(running_);
  take_from(waiting_);
  cancelled_.clear();
}

void ScriptedGenerator::step() {
  const auto now = Clock::now();
  const auto width = static_cast<int32_t>(running_.size());
  for (size_t i = 0; i < running_.size();) {
    Sequence& sequence = running_[i];
    sequence.receipt.max_batch_width = std::max(sequence.receipt.max_batch_width, width);
    const bool expired = sequence.job.deadline && *sequence.job.deadline <= now;
    if (expired ? end(sequence, Finish::kExpired) : sequence.due <= now && advance(sequence)) {
      running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(i));
    } else {
      ++i;
    }
  }
  const std::lock_guard lock(mutex_);
  ++counters_.steps;
  counters_.running = running_.size();
  counters_.max_batch_width = std::max<uint64_t>(counters_.max_batch_width, static_cast<uint64_t>(width));
}

engine::Token ScriptedGenerator::token_of(const Sequence& sequence, const ScriptedPiece& piece) const {
  engine::Token token;
  token.id = sequence.reply->report ? static_cast<uint8_t>(piece.bytes[0]) : codec_->id_of(piece.bytes);
  token.logprob = piece.logprob;
  for (const auto& [text, logprob] : piece.top) {
    if (static_cast<int32_t>(token.top.size()) >= sequence.job.top_logprobs) break;
    token.top.push_back({codec_->id_of(text), logprob});
  }
  return token;
}

std::chrono::milliseconds ScriptedGenerator::delay_of_next(const Sequence& sequence) {
  const std::vector<ScriptedPiece>& pieces = sequence.pieces;
  if (sequence.next < pieces.size()) return std::chrono::milliseconds(pieces[sequence.next].delay_ms);
  const bool again = starts_again(sequence.job, *sequence.reply, pieces);
  return std::chrono::milliseconds(again ? pieces[0].delay_ms : sequence.reply->end_delay_ms);
}

ScriptedGenerator::Clock::time_point ScriptedGenerator::on_tick(Clock::time_point time) const {
  if (script_.tick_ms == 0) return time;
  const Clock::duration tick = std::chrono::milliseconds(script_.tick_ms);
  const Clock::duration over = time.time_since_epoch() % tick;
  return over == Clock::duration::zero() ? time : time + (tick - over);
}

/// Plays the next piece or the end; true once the sequence is over.
bool ScriptedGenerator::advance(Sequence& sequence) {
  const ScriptedReply& reply = *sequence.reply;
  if (sequence.next == sequence.pieces.size()) {
    if (!starts_again(sequence.job, reply, sequence.pieces)) {
      switch (reply.end) {
        case ScriptedEnd::kStop:
          if (refused(sequence, ScriptedCodec::kEnd)) return end(sequence, Finish::kFailed);
          sequence.receipt.stop_id = ScriptedCodec::kEnd;
          return end(sequence, Finish::kStop);
        case ScriptedEnd::kLength:
          return end(sequence, Finish::kLength);
        case ScriptedEnd::kError:
          sequence.receipt.error = reply.error;
          return end(sequence, Finish::kFailed);
        case ScriptedEnd::kVanish:
          return true;
        case ScriptedEnd::kCrash:
          throw std::runtime_error("the engine thread ended");
      }
    }
    sequence.next = 0;
  }
  if (sequence.receipt.completion_tokens == 0) sequence.first = Clock::now();
  const engine::Token token = token_of(sequence, sequence.pieces[sequence.next++]);
  if (refused(sequence, token.id)) return end(sequence, Finish::kFailed);
  if (sequence.guide) sequence.guide->accept(token.id);
  sequence.undelivered.push_back(token);
  ++sequence.receipt.completion_tokens;
  if (static_cast<int32_t>(sequence.undelivered.size()) >= reply.group) {
    sequence.sink->on_tokens(std::exchange(sequence.undelivered, {}));
  }
  if (sequence.guide && sequence.guide->is_done()) return end(sequence, Finish::kStop);
  if (sequence.receipt.completion_tokens >= sequence.job.max_tokens) return end(sequence, Finish::kLength);
  sequence.due = on_tick(sequence.due + delay_of_next(sequence));
  return false;
}

/// A script cannot draw another token in place of one that may not follow.
bool ScriptedGenerator::refused(Sequence& sequence, int32_t token) {
  if (!sequence.guide || sequence.guide->allowed({&token, 1}) == 1) return false;
  sequence.receipt.error = "[serve.scripted] expected a piece of the script that the grammar allows; got '" +
                           std::string(codec_->piece(token)) + "'";
  return true;
}

bool ScriptedGenerator::end(Sequence& sequence, Finish finish) {
  const auto now = Clock::now();
  sequence.receipt.finish = finish;
  if (sequence.admitted != Clock::time_point{}) {
    sequence.receipt.queue_ms = ms_between(sequence.submitted, sequence.admitted);
    sequence.receipt.prefill_ms = ms_between(sequence.admitted, sequence.first);
    sequence.receipt.decode_ms = ms_between(sequence.first, now);
  }
  {
    const std::lock_guard lock(mutex_);
    counters_.completion_tokens += static_cast<uint64_t>(sequence.receipt.completion_tokens);
    if (finish == Finish::kCancelled) {
      ++counters_.cancelled;
    } else if (finish == Finish::kExpired) {
      ++counters_.expired;
    } else if (finish == Finish::kFailed) {
      ++counters_.failed;
    } else {
      ++counters_.finished;
    }
  }
  if (!sequence.undelivered.empty()) sequence.sink->on_tokens(sequence.undelivered);
  sequence.sink->on_finish(sequence.receipt);
  return true;
}

/// The thread ends: with an error all that is left fails, without one it is cancelled.
void ScriptedGenerator::fail_all(const std::string& error) {
  std::deque<Sequence> left;
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
    left = std::exchange(waiting_, {});
    counters_.running = 0;
  }
  for (Sequence& sequence : running_) left.push_back(std::move(sequence));
  running_.clear();
  for (Sequence& sequence : left) {
    sequence.receipt.error = error;
    end(sequence, error.empty() ? Finish::kCancelled : Finish::kFailed);
  }
}

std::shared_ptr<const pool::Model> make_scripted_model(const Script& script) {
  auto model = std::make_shared<pool::Model>();
  auto codec = std::make_shared<ScriptedCodec>(script);
  model->id = script.model;
  model->names = script.names;
  model->created = base::unix_seconds();
  model->family = model->format = model->executor = "scripted";
  model->executor_detail = "plays a script";
  model->context_length = script.context_length;
  model->stop_ids = {ScriptedCodec::kEnd};
  model->defaults = script.defaults;
  model->generator = std::make_shared<ScriptedGenerator>(script, codec);
  set_codec(*model, std::move(codec), script.tool_format, script.reasoning_format);
  return model;
}

}  // namespace penstock::serve
