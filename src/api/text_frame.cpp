#include "api/text_frame.h"

#include <algorithm>

#include "base/error.h"
#include "http/sse.h"

namespace penstock::api {
namespace {

using base::Json;

std::string dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

bool stands_for_itself(unsigned char c) {
  return c >= 0x20 && c < 0x80 && c != '"' && c != '\\';
}

/// Appends the text as a JSON string. Most tokens are plain words; the library does the others.
void append_string(std::string& out, std::string_view text) {
  if (std::all_of(text.begin(), text.end(), stands_for_itself)) {
    out += '"';
    out += text;
    out += '"';
  } else {
    out += dump(Json(std::string(text)));
  }
}

}  // namespace

TextFrame::TextFrame(const std::function<Json(const std::string& text)>& chunk, std::string_view name) {
  const std::string marker = "the text of a delta";
  const std::string whole = http::sse_frame(dump(chunk(marker)), name);
  const std::string quoted = "\"" + marker + "\"";
  const size_t at = whole.rfind(quoted);  // a name that spells it comes before
  if (at == std::string::npos)
    throw base::Error(base::Code::kInternal, "[api.text_frame] expected a chunk with its text; got none");
  before_ = whole.substr(0, at);
  after_ = whole.substr(at + quoted.size());
}

std::string_view TextFrame::event(std::string_view text) {
  event_ = before_;
  append_string(event_, text);
  event_ += after_;
  return event_;
}

}  // namespace penstock::api
