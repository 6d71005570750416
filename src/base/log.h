// Logging to standard error. Levels: debug, info, warn, error. No prompt text, no keys, ever.
#pragma once

#include <string_view>

#include <spdlog/spdlog.h>

namespace penstock::base {

/// Sends the log to standard error, at level "debug", "info", "warn", "error" or "off", as "text" or "json"
/// (one object a line). Throws Error(kInvalidRequest) for another word. Before threads start.
void configure_log(std::string_view level, std::string_view format = "text");

namespace log = spdlog;

}  // namespace penstock::base
