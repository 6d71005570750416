#include "serve/generation.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "serve/jobs.h"

namespace penstock::serve {

using base::Code;
using base::Error;

/// The engine's end of one choice. If the engine drops it without a last word, that is a failure too.
class Generation::Mailbox : public engine::Sink {
 public:
  Mailbox(std::shared_ptr<Generation> owner, size_t slot) : owner_(std::move(owner)), slot_(slot) {}

  ~Mailbox() override {
    if (finished_) return;
    engine::Receipt receipt;
    receipt.error = "the engine dropped the request";
    owner_->close(slot_, receipt);
  }

  void on_tokens(std::span<const engine::Token> tokens) override { owner_->receive(slot_, tokens); }

  void on_finish(const engine::Receipt& receipt) override {
    finished_ = true;
    owner_->close(slot_, receipt);
  }

 private:
  const std::shared_ptr<Generation> owner_;
  const size_t slot_;
  bool finished_ = false;
};

Generation::Generation(std::shared_ptr<Shared> shared, chat::Request request,
                       std::shared_ptr<chat::EventSink> sink)
    : shared_(std::move(shared)), request_(std::move(request)), sink_(std::move(sink)) {
  receipt_.trace_id = request_.origin.trace_id;
}

void Generation::check(const pool::Model& model) const {
  serve::check(request_, model);
}

void Generation::prepare_and_submit() {
  try {
    if (!cancelled()) submit();
  } catch (const Error& error) {
    fail(error, Tally::End::kRefused);
  } catch (const std::exception& error) {
    fail(Error(Code::kInternal, std::string("[serve.prepare] expected a prompt; got ") + error.what()),
         Tally::End::kFailed);
  }
  if (!failed_ && open_ > 0) {
    emit(chat::Started{model_->id, model_->executor, static_cast<int32_t>(slots_.size())});
  }
  const std::lock_guard lock(mutex_);
  streaming_ = true;
  schedule_locked();
}

void Generation::make_slots(size_t count) {
  const auto* conversation = std::get_if<chat::Conversation>(&request_.input);
  const bool at_text_start = conversation != nullptr && !conversation->continue_final_message;
  std::vector<Slot> slots(count);
  for (size_t i = 0; i < count; ++i) {
    slots[i].choice.emplace(*model_->codec, ChoiceOptions{static_cast<int32_t>(i), request_.stop,
                                                          request_.logprobs, at_text_start});
  }
  const std::lock_guard lock(mutex_);
  slots_ = std::move(slots);
}

void Generation::submit() {
  const pool::Model& model = *model_;
  Prepared prepared = prepare(request_, model, *model.guard);
  usage_.prompt_tokens = prepared.prompt_tokens;
  receipt_.max_tokens = prepared.max_tokens;
  make_slots(prepared.prompts.size() * static_cast<size_t>(request_.n));
  if (!request_.serving.session.empty()) {
    session_tokens_ = prepared.prompts.front().job.prompt;
    cache_salt_ = prepared.prompts.front().job.cache_salt;
  }
  size_t slot = 0;
  for (Prepared::Prompt& prompt : prepared.prompts) {
    if (cancelled()) break;
    if (const auto timeout = request_.serving.timeout_ms) {
      prompt.job.deadline = received_ + std::chrono::milliseconds(*timeout);
    }
    std::vector<engine::Member> members;
    for (size_t i = 0; i < prompt.seeds.size(); ++i) {
      members.push_back({prompt.seeds[i], std::make_shared<Mailbox>(shared_from_this(), slot + i)});
    }
    open_members(slot, model.generator->submit(std::move(prompt.job), std::move(members)));
    slot += prompt.seeds.size();
  }
  if (cancelled()) cancel_jobs();
}

void Generation::open_members(size_t first_slot, const std::vector<uint64_t>& jobs) {
  const std::lock_guard lock(mutex_);
  for (size_t i = 0; i < jobs.size(); ++i) {
    slots_[first_slot + i].closed = false;
    slots_[first_slot + i].job = jobs[i];
  }
  open_ += jobs.size();
}

void Generation::attach(std::shared_ptr<const pool::Model> model) {
  const std::lock_guard lock(mutex_);
  model_ = std::move(model);
  withdraw_ = nullptr;
}

void Generation::await_model(std::function<bool()> withdraw) {
  {
    const std::lock_guard lock(mutex_);
    if (model_ != nullptr) return;  // it came before this call
    if (!cancelled_) {
      withdraw_ = std::move(withdraw);
      return;
    }
  }
  end_wait(withdraw);
}

/// Nobody prepares it any more: the stream thread finds it cancelled and without jobs.
void Generation::end_wait(const std::function<bool()>& withdraw) {
  if (!withdraw()) return;
  const std::lock_guard lock(mutex_);
  streaming_ = true;
  schedule_locked();
}

void Generation::cancel(Why why) {
  std::function<bool()> withdraw;
  {
    const std::lock_guard lock(mutex_);
    if (cancelled_) return;
    cancelled_ = why;
    withdraw = std::exchange(withdraw_, nullptr);
    is_cancelled_ = true;
  }
  if (withdraw) return end_wait(withdraw);
  cancel_jobs();
}

std::optional<Generation::Why> Generation::cancelled() const {
  const std::lock_guard lock(mutex_);
  return cancelled_;
}

void Generation::cancel_jobs() {
  std::vector<uint64_t> jobs;
  {
    const std::lock_guard lock(mutex_);
    for (const Slot& slot : slots_) {
      if (slot.job && !slot.receipt) jobs.push_back(*slot.job);
    }
  }
  for (const uint64_t job : jobs) model_->generator->cancel(job);
}

void Generation::receive(size_t slot, std::span<const engine::Token> tokens) {
  const auto now = std::chrono::steady_clock::now();
  const std::lock_guard lock(mutex_);
  if (!first_token_) first_token_ = now;
  if (const auto last = std::exchange(slots_[slot].last_token, now)) {
    const std::chrono::duration<double> gap = now - *last;
    gaps_.observe(gap.count() / static_cast<double>(tokens.size()), tokens.size());
  }
  auto& inbox = slots_[slot].tokens;
  inbox.insert(inbox.end(), tokens.begin(), tokens.end());
  schedule_locked();
}

void Generation::close(size_t slot, const engine::Receipt& receipt) {
  const std::lock_guard lock(mutex_);
  slots_[slot].receipt = receipt;
  schedule_locked();
}

/// False when a drain is needed and the pool takes none any more.
bool Generation::schedule_locked() {
  if (!streaming_ || scheduled_) return true;
  scheduled_ = shared_->stream.post([self = shared_from_this()] { self->drain(); });
  return scheduled_;
}

void Generation::drain() {
  do {
    std::optional<engine::Receipt> receipt;
    for (size_t i = 0; i < slots_.size(); ++i)
      if (take(i, receipt)) process(i, receipt);
    end_if_closed();
  } while (!reschedule());
}

/// What came for one choice, if anything did: its tokens go to `taken`.
bool Generation::take(size_t index, std::optional<engine::Receipt>& receipt) {
  const std::lock_guard lock(mutex_);
  Slot& slot = slots_[index];
  if (slot.closed || (slot.tokens.empty() && !slot.receipt)) return false;
  slot.taken.clear();
  slot.taken.swap(slot.tokens);
  receipt = slot.receipt;
  return true;
}

/// To the back of the queue if there is more to do, so that other requests get their turn. False when this
/// thread must go on itself.
bool Generation::reschedule() {
  const std::lock_guard lock(mutex_);
  scheduled_ = false;
  const bool more = std::any_of(slots_.begin(), slots_.end(), [](const Slot& slot) {
    return !slot.closed && (!slot.tokens.empty() || slot.receipt);
  });
  return !more || schedule_locked();
}

void Generation::process(size_t index, const std::optional<engine::Receipt>& receipt) {
  Slot& slot = slots_[index];
  const auto is_muted = [this] { return failed_ || is_cancelled_; };
  if (index == 0 && !request_.serving.session.empty()) {
    for (const engine::Token& token : slot.taken) session_tokens_.push_back(token.id);
  }
  if (!is_muted()) {
    if (auto delta = slot.choice->push(slot.taken)) emit(std::move(*delta));
    if (slot.choice->matched() != nullptr && !slot.stop_sent) {
      slot.stop_sent = true;
      if (!receipt) model_->generator->cancel(*slot.job);
    }
  }
  if (!receipt) return;
  slot.closed = true;
  --open_;
  note(index, *receipt);
  if (!is_muted()) finish_choice(index, *receipt);
}

void Generation::note(size_t index, const engine::Receipt& receipt) {
  if (index % static_cast<size_t>(request_.n) == 0) usage_.cached_tokens += receipt.cached_tokens;
  receipt_.executor = receipt.executor;
  receipt_.batch_width = std::max(receipt_.batch_width, receipt.max_batch_width);
  receipt_.cached_tokens = usage_.cached_tokens;
  receipt_.preemptions += receipt.preemptions;
  receipt_.drafted += receipt.drafted;
  receipt_.accepted += receipt.accepted;
  receipt_.queue_ms = std::max(receipt_.queue_ms, receipt.queue_ms);
  receipt_.prefill_ms = std::max(receipt_.prefill_ms, receipt.prefill_ms);
  receipt_.decode_ms = std::max(receipt_.decode_ms, receipt.decode_ms);
}

void Generation::finish_choice(size_t index, const engine::Receipt& receipt) {
  Choice& choice = *slots_[index].choice;
  const std::string* matched = choice.matched();
  if (receipt.finish == engine::Finish::kFailed) {
    return fail(Error(Code::kInternal, "[serve.generation] expected an answer; got " + receipt.error),
                Tally::End::kFailed);
  }
  if (receipt.finish == engine::Finish::kExpired) {
    return fail(
        Error(Code::kTimeout, "[serve.generation] expected an answer before the request's deadline; got " +
                                  std::to_string(receipt.completion_tokens) + " tokens of it"),
        Tally::End::kFailed);
  }
  if (receipt.finish == engine::Finish::kCancelled && matched == nullptr) {
    return fail(Error(Code::kUnavailable, "[serve.generation] expected an answer; got a server that stops"),
                Tally::End::kCancelled);
  }
  if (auto delta = choice.finish()) emit(std::move(*delta));
  const bool is_length = matched == nullptr && receipt.finish == engine::Finish::kLength;
  cut_ = cut_ || is_length;
  emit(chat::Finished{static_cast<int32_t>(index),
                      is_length ? chat::FinishReason::kLength : chat::FinishReason::kStop,
                      matched == nullptr ? "" : *matched});
}

/// The client hears of it at once; it counts as ended when the engine has let go of all its jobs.
void Generation::fail(Error error, Tally::End how) {
  failed_ = true;
  how_ = how;
  error_ = error.code();
  cancel_jobs();
  end_if_closed();
  emit(chat::Failure{std::move(error)});
}

void Generation::emit(chat::Event event) {
  if (sink_ == nullptr) return;
  const bool is_last =
      std::holds_alternative<chat::Failure>(event) || std::holds_alternative<chat::Done>(event);
  try {
    sink_->on_event(std::move(event));
  } catch (const std::exception& error) {
    base::log::error("a response could not be encoded: {}", error.what());
    sink_.reset();  // which breaks the answer off
    cancel(Why::kCaller);
  }
  if (is_last) sink_.reset();
}

Outcome Generation::outcome() const {
  switch (how_) {
    case Tally::End::kFinished:
      return cut_ ? Outcome::kLength : Outcome::kStop;
    case Tally::End::kCancelled:
      return Outcome::kCancelled;
    case Tally::End::kDisconnected:
      return Outcome::kDisconnected;
    case Tally::End::kFailed:
      return error_ == Code::kTimeout ? Outcome::kExpired : Outcome::kFailed;
    case Tally::End::kRefused:
      return Outcome::kRefused;
  }
  return Outcome::kFailed;
}

void Generation::report() {
  using Ms = std::chrono::duration<double, std::milli>;
  FinishedRequest finished;
  finished.id = request_.id;
  if (model_ != nullptr) finished.model = model_->id;
  finished.origin = request_.origin;
  finished.outcome = outcome();
  if (error_) finished.error = base::name(*error_);
  finished.usage = usage_;
  finished.receipt = receipt_;
  finished.total_ms = Ms(std::chrono::steady_clock::now() - received_).count();
  Histogram gaps;
  {
    const std::lock_guard lock(mutex_);
    if (first_token_) finished.first_token_ms = Ms(*first_token_ - received_).count();
    gaps = gaps_;
  }
  shared_->telemetry.end(std::move(finished), gaps);
}

void Generation::note_session() {
  if (shared_->sessions == nullptr || session_tokens_.empty()) return;
  tier::SessionRecord use;
  use.id = request_.serving.session;
  use.model = model_->id;
  use.fingerprint = model_->fingerprint;
  use.block_tokens = model_->block_tokens;
  use.salt = cache_salt_;
  use.tokens = std::move(session_tokens_);
  try {
    shared_->sessions->note(std::move(use));
  } catch (const Error& error) {
    base::log::warn("a session is not kept: {}", error.text());
  }
}

void Generation::end_if_closed() {
  if (ended_ || open_ > 0) return;
  ended_ = true;
  for (const Slot& slot : slots_) usage_.completion_tokens += slot.choice->completion_tokens();
  const auto why = cancelled();
  if (why && !failed_) how_ = *why == Why::kDisconnected ? Tally::End::kDisconnected : Tally::End::kCancelled;
  if (how_ != Tally::End::kRefused) {
    shared_->tally.add_tokens(static_cast<uint64_t>(usage_.prompt_tokens),
                              static_cast<uint64_t>(usage_.completion_tokens));
  }
  if (how_ == Tally::End::kFinished) shared_->service_time.add(receipt_.prefill_ms + receipt_.decode_ms);
  shared_->live.remove(request_.id);
  if (how_ != Tally::End::kRefused) note_session();
  report();
  shared_->tally.end(how_);
  if (how_ == Tally::End::kFinished) emit(chat::Done{usage_, receipt_});
  if (why == Why::kById && !failed_) {
    emit(chat::Failure{
        Error(Code::kCancelled, "[serve.generation] expected to finish; got cancelled by its id")});
  }
  if (why) sink_.reset();
}

}  // namespace penstock::serve
