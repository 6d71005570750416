// One request in flight and the stream that may answer it. Both may be used from any thread and never block;
// the connection's io thread does the writing. They do not know the protocol: framing of events is in sse.h.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "http/message.h"

namespace penstock::http {

struct StreamOptions {
  std::string keepalive = ": keep-alive\n\n";  // sent whenever nothing was sent for keepalive_ms
  int keepalive_ms = 15000;                    // 0: never; counted from the head on
  size_t buffer_bytes = 0;  // unsent bytes at which the reader is too slow; 0: Limits::stream_buffer_bytes
};

class ExchangeState;

/// The body of an answer whose head is sent. Dropping the last reference without finish() breaks the
/// connection off, so that the peer sees a truncated body and not a short one.
class Stream {
 public:
  explicit Stream(std::shared_ptr<ExchangeState> state);
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  /// Queues a chunk, best a whole event: keep-alives go between chunks. False, and nothing is queued, once
  /// the peer is gone or too slow, or after finish(). Always false when the request was HEAD.
  bool write(std::string_view chunk);

  /// Ends the body after what is queued. Further calls do nothing.
  void finish();

  /// Breaks the connection off. Further calls do nothing.
  void abort();

  /// True once write() can only return false.
  bool closed() const;

 private:
  const std::shared_ptr<ExchangeState> state_;
};

/// Exactly one of respond() and start_stream(), once; a second answer throws Error(kInternal). Dropping the
/// last reference without an answer answers 500.
class Exchange {
 public:
  explicit Exchange(std::shared_ptr<ExchangeState> state);
  virtual ~Exchange();
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  virtual void respond(Response response);

  /// Sends the head at once; `head.body` is the first chunk, if any.
  virtual std::shared_ptr<Stream> start_stream(Response head, StreamOptions options = {});

  /// `callback` runs at most once, on the io thread: when the peer half-closes, resets or stops reading
  /// before the answer is complete, or when the server stops; soon after this call if that has happened.
  /// Replaces an earlier callback. Never runs after a complete answer.
  virtual void on_disconnect(std::function<void()> callback);

  virtual bool disconnected() const;

 protected:
  Exchange() = default;

 private:
  const std::shared_ptr<ExchangeState> state_;
};

}  // namespace penstock::http
