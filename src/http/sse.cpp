#include "http/sse.h"

#include <algorithm>

#include "base/error.h"

namespace penstock::http {
namespace {

Response streaming_head(std::string content_type) {
  Response head;
  head.content_type = std::move(content_type);
  head.headers = {{"Cache-Control", "no-cache, no-transform"}, {"X-Accel-Buffering", "no"}};
  return head;
}

}  // namespace

Response sse_head() {
  return streaming_head("text/event-stream");
}

std::string sse_frame(std::string_view data, std::string_view event) {
  std::string frame;
  frame.reserve(data.size() + event.size() + 24);
  if (!event.empty()) {
    frame += "event: ";
    frame += event;
    frame += '\n';
  }
  // A carriage return ends a line for readers of the format, so it may not travel inside one.
  for (bool more = true; more;) {
    const auto line_end =
        std::find_if(data.begin(), data.end(), [](char c) { return c == '\n' || c == '\r'; });
    const size_t end =
        line_end == data.end() ? std::string_view::npos : static_cast<size_t>(line_end - data.begin());
    frame += "data: ";
    frame += data.substr(0, end);
    frame += '\n';
    more = end != std::string_view::npos;
    if (more) data.remove_prefix(end + (data.substr(end).starts_with("\r\n") ? 2 : 1));
  }
  frame += '\n';
  return frame;
}

Response ndjson_head() {
  return streaming_head("application/x-ndjson");
}

std::string ndjson_line(std::string_view json) {
  if (json.find('\n') != std::string_view::npos) {
    throw base::Error(base::Code::kInternal, "[http.ndjson] expected JSON on one line; got a newline in it");
  }
  return std::string(json) + "\n";
}

StreamOptions ndjson_options() {
  StreamOptions options;
  options.keepalive.clear();
  options.keepalive_ms = 0;
  return options;
}

}  // namespace penstock::http
