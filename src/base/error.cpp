#include "base/error.h"

namespace penstock::base {

std::string_view name(Code code) {
  switch (code) {
    case Code::kInvalidRequest: return "invalid_request";
    case Code::kContextLength: return "context_length_exceeded";
    case Code::kUnauthorized: return "unauthorized";
    case Code::kForbidden: return "forbidden";
    case Code::kNotFound: return "not_found";
    case Code::kMethodNotAllowed: return "method_not_allowed";
    case Code::kTooLarge: return "too_large";
    case Code::kUnsupportedMedia: return "unsupported_media";
    case Code::kTimeout: return "timeout";
    case Code::kOverloaded: return "overloaded";
    case Code::kUnavailable: return "unavailable";
    case Code::kCancelled: return "cancelled";
    case Code::kCorrupt: return "corrupt";
    case Code::kUnsupported: return "unsupported";
    case Code::kIo: return "io";
    case Code::kInternal: return "internal";
  }
  return "internal";
}

std::string_view Error::text() const {
  std::string_view message = what();
  if (!message.starts_with('[')) return message;
  const auto end = message.find("] ");
  return end == std::string_view::npos ? message : message.substr(end + 2);
}

}  // namespace penstock::base
