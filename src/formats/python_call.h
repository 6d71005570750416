// Reads calls that are written as Python: f(a="x", b=2).
#pragma once

#include <string_view>

#include "formats/reading.h"

namespace penstock::formats {

/// One call from its name on; `suffix` stands between name and bracket. Arguments have names.
Step read_python_call(Reading& r, std::string_view suffix);

}  // namespace penstock::formats
