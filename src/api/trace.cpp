#include "api/trace.h"

#include "api/access.h"

namespace penstock::api {
namespace {

bool is_hex(std::string_view text) {
  return text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

bool is_zero(std::string_view text) {
  return text.find_first_not_of('0') == std::string_view::npos;
}

}  // namespace

/// version-trace-parent-flags; a later version may have more behind a further dash.
std::string trace_id(std::string_view traceparent) {
  constexpr size_t kBytes = 55;
  if (traceparent.size() < kBytes) return "";
  const std::string_view version = traceparent.substr(0, 2), trace = traceparent.substr(3, 32),
                         parent = traceparent.substr(36, 16), flags = traceparent.substr(53, 2);
  const bool dashes = traceparent[2] == '-' && traceparent[35] == '-' && traceparent[52] == '-';
  const bool length = traceparent.size() == kBytes || (version != "00" && traceparent[kBytes] == '-');
  if (!dashes || !length || version == "ff" || is_zero(trace) || is_zero(parent)) return "";
  for (const std::string_view part : {version, trace, parent, flags})
    if (!is_hex(part)) return "";
  return std::string(trace);
}

chat::Origin origin_of(const http::Request& request, std::string_view surface) {
  chat::Origin origin;
  origin.surface = surface;
  origin.request_id = request_id(request);
  origin.trace_id = trace_id(request.header("traceparent"));
  return origin;
}

}  // namespace penstock::api
