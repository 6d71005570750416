// Heads and frames of the two streaming body formats: server-sent events and newline-delimited JSON. Pure
// functions.
#pragma once

#include <string>
#include <string_view>

#include "http/exchange.h"

namespace penstock::http {

/// text/event-stream with the headers that keep proxies from buffering.
Response sse_head();

/// One event; each line of `data` becomes a data field. `event` names it (empty: unnamed).
std::string sse_frame(std::string_view data, std::string_view event = {});

/// application/x-ndjson with the same proxy headers.
Response ndjson_head();

/// `json` and a newline. Throws Error(kInternal) if `json` has a newline of its own.
std::string ndjson_line(std::string_view json);

/// Keep-alive for NDJSON: none, since its readers take every line for a value.
StreamOptions ndjson_options();

}  // namespace penstock::http
