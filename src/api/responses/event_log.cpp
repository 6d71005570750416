#include "api/responses/event_log.h"

#include <algorithm>
#include <utility>

#include "http/sse.h"

namespace penstock::api::responses {

using base::Json;

std::string EventLog::next_json(std::string_view type, Json fields) const {
  Json event = {{"type", type}, {"sequence_number", next_}};
  event.update(fields);
  return event.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string EventLog::next_line(std::string_view type, Json fields) const {
  return next_json(type, std::move(fields)) + "\n";
}

void EventLog::tell(std::string_view type, Json fields) {
  if (streams_.empty() && !keeps_) return;
  std::string json = next_json(type, std::move(fields));
  ++next_;
  const std::string frame = streams_.empty() ? "" : http::sse_frame(json, type);
  // A reader that left or is too slow gets no more.
  std::erase_if(streams_, [&](const auto& stream) { return !stream->write(frame); });
  if (keeps_) kept_.push_back({std::string(type), std::move(json)});
}

void EventLog::finish() {
  for (const auto& stream : streams_) stream->finish();
  streams_.clear();
}

std::string EventLog::frames_after(int64_t starting_after) const {
  std::string frames;
  const auto first = static_cast<size_t>(std::max<int64_t>(starting_after + 1, 0));
  for (size_t i = first; i < kept_.size(); ++i) frames += http::sse_frame(kept_[i].json, kept_[i].type);
  return frames;
}

std::string EventLog::lines() const {
  std::string lines;
  for (const Kept& event : kept_) lines += event.json + "\n";
  return lines;
}

std::string EventLog::frames_after(std::string_view lines, int64_t starting_after) {
  std::string frames;
  for (int64_t number = 0; !lines.empty(); ++number) {
    const std::string_view line = lines.substr(0, lines.find('\n'));
    lines.remove_prefix(std::min(line.size() + 1, lines.size()));
    if (number <= starting_after) continue;
    // The type stands first; it has no characters that JSON escapes.
    constexpr std::string_view kBegin = "{\"type\":\"";
    const std::string_view type = line.substr(kBegin.size(), line.find('"', kBegin.size()) - kBegin.size());
    frames += http::sse_frame(line, type);
  }
  return frames;
}

std::shared_ptr<http::Stream> start_replay(http::Exchange& exchange, const std::string& frames,
                                           http::StreamOptions options) {
  constexpr size_t kRoomBytes = 1 << 20;  // for what comes while they are read
  options.buffer_bytes = frames.size() + kRoomBytes;
  http::Response head = http::sse_head();
  head.body = frames;
  return exchange.start_stream(std::move(head), std::move(options));
}

}  // namespace penstock::api::responses
