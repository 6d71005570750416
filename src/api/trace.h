// Where a request comes from, as logs, receipts and metrics name it: its surface, its x-request-id and its
// W3C trace. Pure functions.
#pragma once

#include <string>
#include <string_view>

#include "chat/request.h"
#include "http/message.h"

namespace penstock::api {

/// The trace id of a valid W3C `traceparent`, 32 hexadecimal digits; empty for any other text.
std::string trace_id(std::string_view traceparent);

/// `surface` is one of a few fixed words: it becomes a label. Makes a request id where none came.
chat::Origin origin_of(const http::Request& request, std::string_view surface);

}  // namespace penstock::api
