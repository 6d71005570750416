#include "serve/encoding.h"

#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "serve/texts.h"

namespace penstock::serve {

using base::Code;
using base::Error;

Encoding::Encoding(std::shared_ptr<Shared> shared, chat::EncodeRequest request, OnAnswer on_answer)
    : shared_(std::move(shared)), request_(std::move(request)), on_answer_(std::move(on_answer)) {
  answer_.receipt.trace_id = request_.origin.trace_id;
}

void Encoding::check(const pool::Model& model) const {
  serve::check(request_, model);
}

void Encoding::attach(std::shared_ptr<const pool::Model> model) {
  const std::lock_guard lock(mutex_);
  model_ = std::move(model);
  withdraw_ = nullptr;
}

void Encoding::await_model(std::function<bool()> withdraw) {
  std::optional<Why> cancelled;
  {
    const std::lock_guard lock(mutex_);
    if (model_ != nullptr || ended_) return;  // it came before this call
    cancelled = cancelled_;
    if (!cancelled) {
      withdraw_ = std::move(withdraw);
      return;
    }
  }
  if (withdraw()) end_cancelled(*cancelled);
}

void Encoding::prepare_and_submit() {
  try {
    engine::EncodeJob job = prepare_texts(request_, *model_);
    if (const auto timeout = request_.timeout_ms)
      job.deadline = received_ + std::chrono::milliseconds(*timeout);
    std::optional<Why> cancelled;
    {
      // Under the mutex, so that a cancel finds the job or the job is not made.
      const std::lock_guard lock(mutex_);
      cancelled = cancelled_;
      if (!cancelled) {
        job_ = model_->encoder->encode(std::move(job), [self = shared_from_this()](engine::Encoded encoded) {
          auto shared_result = std::make_shared<engine::Encoded>(std::move(encoded));
          const bool posted =
              self->shared_->stream.post([self, shared_result] { self->deliver(std::move(*shared_result)); });
          if (!posted)
            self->fail(
                Error(Code::kUnavailable, "[serve.encoding] expected an answer; got a server that stops"),
                Tally::End::kFailed);
        });
      }
    }
    if (cancelled) end_cancelled(*cancelled);
  } catch (const Error& error) {
    fail(error, Tally::End::kRefused);
  } catch (const std::exception& error) {
    fail(Error(Code::kInternal, std::string("[serve.encoding] expected texts; got ") + error.what()),
         Tally::End::kFailed);
  }
}

void Encoding::cancel(Why why) {
  std::function<bool()> withdraw;
  std::optional<uint64_t> job;
  {
    const std::lock_guard lock(mutex_);
    if (cancelled_ || ended_) return;
    cancelled_ = why;
    withdraw = std::exchange(withdraw_, nullptr);
    job = job_;
  }
  if (withdraw && withdraw()) return end_cancelled(why);
  if (job) model_->encoder->cancel(*job);
}

/// On a stream thread.
void Encoding::deliver(engine::Encoded encoded) {
  answer_.usage.prompt_tokens = encoded.prompt_tokens;
  answer_.receipt.executor = model_->executor;
  answer_.receipt.batch_width = encoded.max_batch_width;
  answer_.receipt.queue_ms = encoded.queue_ms;
  answer_.receipt.prefill_ms = encoded.compute_ms;
  switch (encoded.finish) {
    case engine::Finish::kStop:
    case engine::Finish::kLength:
      break;
    case engine::Finish::kCancelled: {
      std::optional<Why> why;
      {
        const std::lock_guard lock(mutex_);
        why = cancelled_;
      }
      if (why) return end_cancelled(*why);
      return fail(Error(Code::kUnavailable, "[serve.encoding] expected an answer; got a server that stops"),
                  Tally::End::kCancelled);
    }
    case engine::Finish::kExpired:
      return fail(Error(Code::kTimeout, "[serve.encoding] expected an answer in time; got none within " +
                                            std::to_string(request_.timeout_ms.value_or(0)) + " ms"),
                  Tally::End::kFailed);
    case engine::Finish::kFailed:
      return fail(Error(Code::kInternal, "[serve.encoding] expected vectors; got " + encoded.error),
                  Tally::End::kFailed);
  }
  answer_.model = model_->id;
  answer_.width = model_->encoder->width();
  answer_.values = std::move(encoded.values);
  const auto* embed = std::get_if<chat::Embed>(&request_.input);
  if (embed != nullptr && embed->dimensions) {
    const auto dimensions = static_cast<size_t>(*embed->dimensions);
    answer_.values =
        first_dimensions(std::move(answer_.values), static_cast<size_t>(answer_.width), dimensions);
    answer_.width = static_cast<int32_t>(dimensions);
  }
  const double compute_ms = encoded.compute_ms;
  if (!end(Tally::End::kFinished, Outcome::kStop, std::nullopt)) return;
  shared_->service_time.add(compute_ms);
  if (const auto call = std::exchange(on_answer_, nullptr)) call(std::move(answer_));
}

void Encoding::fail(Error error, Tally::End how) {
  const Outcome outcome = error.code() == Code::kTimeout  ? Outcome::kExpired
                          : how == Tally::End::kRefused   ? Outcome::kRefused
                          : how == Tally::End::kCancelled ? Outcome::kCancelled
                                                          : Outcome::kFailed;
  if (!end(how, outcome, error.code())) return;
  if (const auto call = std::exchange(on_answer_, nullptr)) call(std::move(error));
}

/// Only who cancelled it by its id leaves somebody who waits.
void Encoding::end_cancelled(Why why) {
  const bool gone = why == Why::kDisconnected;
  if (!end(gone ? Tally::End::kDisconnected : Tally::End::kCancelled,
           gone ? Outcome::kDisconnected : Outcome::kCancelled, Code::kCancelled))
    return;
  const auto call = std::exchange(on_answer_, nullptr);
  if (call && why == Why::kById)
    call(Error(Code::kCancelled, "[serve.encoding] expected to finish; got cancelled by its id"));
}

bool Encoding::end(Tally::End how, Outcome outcome, std::optional<Code> error) {
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(ended_, true)) return false;
  }
  using Ms = std::chrono::duration<double, std::milli>;
  if (how != Tally::End::kRefused)
    shared_->tally.add_tokens(static_cast<uint64_t>(answer_.usage.prompt_tokens), 0);
  shared_->live.remove(request_.id);
  FinishedRequest finished;
  finished.id = request_.id;
  if (model_ != nullptr) finished.model = model_->id;
  finished.origin = request_.origin;
  finished.outcome = outcome;
  if (error) finished.error = base::name(*error);
  finished.usage = answer_.usage;
  finished.receipt = answer_.receipt;
  finished.total_ms = Ms(std::chrono::steady_clock::now() - received_).count();
  shared_->telemetry.end(std::move(finished), {});
  shared_->tally.end(how);
  return true;
}

}  // namespace penstock::serve
