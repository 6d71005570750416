// The bytes of a response's status line and headers, and of the chunked coding. Pure functions.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "http/message.h"

namespace penstock::http {

struct HeadFraming {
  std::optional<size_t> content_length;  // nothing: no Content-Length
  bool chunked = false;
  bool http11 = true;
  bool keep_alive = true;
};

/// Appends the head, up to and with its empty line. A header that could split the response is left out and
/// logged.
void append_head(std::string& out, const Response& response, const HeadFraming& framing);

/// Appends `data` as one chunk, or bare when not `chunked`. Empty data appends nothing.
void append_chunk(std::string& out, std::string_view data, bool chunked);

/// Appends the end of a chunked body.
void append_last_chunk(std::string& out, bool chunked);

/// True for statuses that never have a body.
bool is_bodyless(int status);

}  // namespace penstock::http
