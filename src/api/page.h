// Lists in pages, as OpenAI's endpoints give them. Pure.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "api/query.h"
#include "base/json.h"

namespace penstock::api {

struct PageLimits {
  int64_t most = 100, usual = 20;
};

/// The page that the query asks for (limit, order, after) of all items, which come oldest first and are
/// objects with an id. The newest come first unless order is asc. Throws Error(kInvalidRequest).
base::Json page_of(std::vector<base::Json> items, const Query& query, PageLimits limits = {});

}  // namespace penstock::api
