// The numbered events of one response and the streams that read them. One thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "http/exchange.h"

namespace penstock::api::responses {

class EventLog {
 public:
  /// `keeps`: events may be read again later.
  explicit EventLog(bool keeps) : keeps_(keeps) {}

  void add_stream(std::shared_ptr<http::Stream> stream) { streams_.push_back(std::move(stream)); }
  bool has_streams() const { return !streams_.empty(); }
  bool keeps() const { return keeps_; }

  /// Gives it the next number and to every stream.
  void tell(std::string_view type, base::Json fields);

  /// The event that tell() would give next, a line.
  std::string next_line(std::string_view type, base::Json fields) const;

  /// Ends all streams.
  void finish();

  /// The SSE frames of the kept events after `starting_after` (-1: all).
  std::string frames_after(int64_t starting_after) const;

  /// The kept events, a line each, as they are stored.
  std::string lines() const;

  /// The same frames of stored lines.
  static std::string frames_after(std::string_view lines, int64_t starting_after);

 private:
  struct Kept {
    std::string type, json;
  };
  std::string next_json(std::string_view type, base::Json fields) const;

  const bool keeps_;
  int64_t next_ = 0;
  std::vector<Kept> kept_;
  std::vector<std::shared_ptr<http::Stream>> streams_;
};

/// Answers with frames and keeps the stream open; its buffer has room for them.
std::shared_ptr<http::Stream> start_replay(http::Exchange& exchange, const std::string& frames,
                                           http::StreamOptions options);

}  // namespace penstock::api::responses
