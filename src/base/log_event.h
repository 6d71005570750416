// Log lines made of fields, such as the one of a finished request: key=value words, or members of the line's
// object where the log is JSON. Any thread.
#pragma once

#include <string_view>

#include "base/json.h"

namespace penstock::base {

/// Whether such lines are written: the level is info or lower.
bool logs_events();

/// `fields` is an object; its names are neither "time", "level" nor "event".
void log_event(std::string_view event, const Json& fields);

}  // namespace penstock::base
