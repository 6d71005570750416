// Logging to standard error. Levels: debug, info, warn, error. No prompt text, no keys, ever.
#pragma once

#include <string_view>

#include <spdlog/spdlog.h>

namespace penstock::base {

/// Sends the log to standard error, at level "debug", "info", "warn", "error" or "off".
/// Throws Error(kInvalidRequest) for another word.
void configure_log(std::string_view level);

namespace log = spdlog;

}  // namespace penstock::base
