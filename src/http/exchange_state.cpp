#include "http/exchange_state.h"

#include <utility>

#include "base/error.h"

namespace penstock::http {
namespace {

[[noreturn]] void throw_second_answer() {
  throw base::Error(base::Code::kInternal, "[http.exchange] expected one answer to a request; got a second");
}

}  // namespace

ExchangeState::ExchangeState(ExchangeOwner* owner, size_t default_buffer_bytes, bool is_head)
    : owner_(owner), buffer_bytes_(default_buffer_bytes), is_head_(is_head) {}

void ExchangeState::wake() {
  if (!armed_ || owner_ == nullptr) return;
  armed_ = false;
  owner_->wake_session();
}

void ExchangeState::respond(Response response) {
  const std::lock_guard lock(mutex_);
  if (answer_ != Answer::kNone) throw_second_answer();
  answer_ = Answer::kResponse;
  response_ = std::move(response);
  wake();
}

void ExchangeState::start_stream(Response head, StreamOptions options) {
  const std::lock_guard lock(mutex_);
  if (answer_ != Answer::kNone) throw_second_answer();
  answer_ = Answer::kStream;
  if (options.buffer_bytes != 0) buffer_bytes_ = options.buffer_bytes;
  options_ = std::move(options);
  if (!is_head_) queued_ = std::move(head.body);
  head.body.clear();
  response_ = std::move(head);
  wake();
}

bool ExchangeState::write(std::string_view chunk) {
  const std::lock_guard lock(mutex_);
  if (is_head_ || owner_ == nullptr || gone_ || finished_ || aborted_ || too_slow_) return false;
  if (queued_.size() + in_flight_bytes_ >= buffer_bytes_) {
    too_slow_ = true;
    wake();
    return false;
  }
  queued_ += chunk;
  wake();
  return true;
}

void ExchangeState::finish() {
  const std::lock_guard lock(mutex_);
  finished_ = true;
  wake();
}

void ExchangeState::abort() {
  const std::lock_guard lock(mutex_);
  if (!finished_) aborted_ = true;
  wake();
}

bool ExchangeState::closed() const {
  const std::lock_guard lock(mutex_);
  return is_head_ || owner_ == nullptr || gone_ || finished_ || aborted_ || too_slow_;
}

void ExchangeState::on_disconnect(std::function<void()> callback) {
  std::function<void()> replaced;  // destroyed outside the lock
  {
    const std::lock_guard lock(mutex_);
    replaced = std::exchange(callback_, std::move(callback));
    if (!gone_ || owner_ != nullptr) {
      if (gone_) wake();
      return;
    }
  }
  disconnect();  // the server has stopped and there is no io thread any more
}

bool ExchangeState::disconnected() const {
  const std::lock_guard lock(mutex_);
  return gone_ || too_slow_;
}

void ExchangeState::drop_exchange() {
  const std::lock_guard lock(mutex_);
  if (answer_ != Answer::kNone) return;
  dropped_ = true;
  wake();
}

void ExchangeState::fail(Response response) {
  const std::lock_guard lock(mutex_);
  if (answer_ == Answer::kStream && !finished_) aborted_ = true;
  if (answer_ != Answer::kNone) return;
  answer_ = Answer::kResponse;
  response_ = std::move(response);
}

ExchangeState::Answer ExchangeState::answer_or_arm() {
  const std::lock_guard lock(mutex_);
  armed_ = answer_ == Answer::kNone && !dropped_;
  return answer_ == Answer::kNone && dropped_ ? Answer::kDropped : answer_;
}

Response ExchangeState::take_response() {
  const std::lock_guard lock(mutex_);
  return std::move(response_);
}

StreamOptions ExchangeState::stream_options() const {
  const std::lock_guard lock(mutex_);
  return options_;
}

void ExchangeState::take_or_arm(Piece& piece) {
  constexpr size_t kKeptBytes = 4096;
  if (piece.data.capacity() > kKeptBytes) piece.data = {};
  piece.data.clear();
  const std::lock_guard lock(mutex_);
  piece.data.swap(queued_);
  piece.finished = finished_;
  piece.aborted = aborted_;
  piece.too_slow = too_slow_;
  in_flight_bytes_ = piece.data.size();
  armed_ = piece.data.empty() && !finished_ && !aborted_ && !too_slow_;
}

bool ExchangeState::wants_attention() {
  const std::lock_guard lock(mutex_);
  armed_ = !aborted_ && !too_slow_;
  return !armed_;
}

bool ExchangeState::settled_or_arm() {
  const std::lock_guard lock(mutex_);
  const bool stream_over = finished_ || aborted_;
  const bool settled =
      dropped_ || answer_ == Answer::kResponse || (answer_ == Answer::kStream && stream_over);
  armed_ = !settled;
  return settled;
}

void ExchangeState::disconnect() {
  std::function<void()> callback;
  {
    const std::lock_guard lock(mutex_);
    gone_ = true;
    callback = std::exchange(callback_, nullptr);
  }
  if (callback) callback();
}

void ExchangeState::complete() {
  std::function<void()> callback;  // destroyed outside the lock, unused
  const std::lock_guard lock(mutex_);
  owner_ = nullptr;
  callback = std::exchange(callback_, nullptr);
}

void ExchangeState::detach() {
  disconnect();
  const std::lock_guard lock(mutex_);
  owner_ = nullptr;
}

}  // namespace penstock::http
