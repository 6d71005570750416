// Models as /api/tags, /api/ps and /api/show tell of them. Pure functions.
#pragma once

#include <chrono>

#include "base/json.h"
#include "library/library.h"

namespace penstock::api::ollama {

base::Json tag_json(const library::Listing& model);

/// Of a model that is loaded; `now` counts for when it is unloaded.
base::Json running_json(const library::Listing& model, std::chrono::system_clock::time_point now);

base::Json show_json(const library::Listing& model);

/// "134.52M", "1.5B".
std::string count_text(int64_t count);

}  // namespace penstock::api::ollama
