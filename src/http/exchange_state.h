// What the two ends of an exchange share: the handler's handles (any thread) and the session (its io thread).
// It holds answers and chunks between them and wakes the session; it does no I/O.
#pragma once

#include <functional>
#include <mutex>
#include <string>

#include "http/exchange.h"
#include "http/message.h"

namespace penstock::http {

/// The session as the exchange sees it. Called with the exchange's lock held, from any thread: only posts.
class ExchangeOwner {
 public:
  virtual void wake_session() = 0;

 protected:
  ~ExchangeOwner() = default;
};

class ExchangeState {
 public:
  enum class Answer { kNone, kResponse, kStream, kDropped };

  /// What the session finds in a stream.
  struct Piece {
    std::string data;
    bool finished = false;  // nothing follows `data`
    bool aborted = false;   // given up by the handler
    bool too_slow = false;  // the buffer limit was hit
  };

  ExchangeState(ExchangeOwner* owner, size_t default_buffer_bytes, bool is_head);

  // Handler's side, any thread.
  void respond(Response response);
  void start_stream(Response head, StreamOptions options);
  bool write(std::string_view chunk);
  void finish();
  void abort();
  bool closed() const;
  void on_disconnect(std::function<void()> callback);
  bool disconnected() const;
  void drop_exchange();  // the last Exchange is gone

  // Session's side, its io thread. The `arm` forms ask for one wake_session() at the next change if there is
  // nothing now.
  /// The handler threw: answers if there is no answer yet, breaks a stream off.
  void fail(Response response);
  Answer answer_or_arm();
  Response take_response();  // of a stream: its head
  StreamOptions stream_options() const;
  void take_or_arm(Piece& piece);  // the one before has left; its memory serves the next chunks
  bool wants_attention();          // too slow or aborted while a piece is being written; arms
  bool settled_or_arm();           // answered, ended or dropped: no more is to come
  /// The peer is gone: closes the stream and runs the callback, once.
  /// Call again after a wake: a callback that came later runs then.
  void disconnect();
  /// The answer is complete: no more wakes, and the callback never runs.
  void complete();
  /// The session ends early (the server stops): disconnect(), and no more wakes.
  void detach();

 private:
  void wake();

  mutable std::mutex mutex_;
  ExchangeOwner* owner_;
  size_t buffer_bytes_;
  const bool is_head_;
  Answer answer_ = Answer::kNone;
  Response response_;
  StreamOptions options_;
  std::string queued_;
  size_t in_flight_bytes_ = 0;
  bool armed_ = false, dropped_ = false, finished_ = false, aborted_ = false, too_slow_ = false;
  bool gone_ = false;
  std::function<void()> callback_;
};

}  // namespace penstock::http
