#include "api/page.h"

#include <algorithm>

#include "base/error.h"

namespace penstock::api {

using base::Code;
using base::Error;
using base::Json;

Json page_of(std::vector<Json> items, const Query& query, PageLimits limits) {
  const auto limit = static_cast<size_t>(query.integer("limit", 1, limits.most).value_or(limits.usual));
  if (query.choice("order", {"asc", "desc"}).value_or("desc") == "desc")
    std::reverse(items.begin(), items.end());
  if (const auto after = query.text("after")) {
    const auto found =
        std::find_if(items.begin(), items.end(), [&](const Json& item) { return item["id"] == *after; });
    if (found == items.end()) {
      throw Error(Code::kInvalidRequest, "[api.list] expected after to be an id of the list; got " + *after,
                  "after");
    }
    items.erase(items.begin(), found + 1);
  }
  const bool has_more = items.size() > limit;
  if (has_more) items.resize(limit);
  Json page = {{"object", "list"}, {"data", std::move(items)}, {"first_id", nullptr}, {"last_id", nullptr}};
  if (!page["data"].empty()) {
    page["first_id"] = page["data"].front()["id"];
    page["last_id"] = page["data"].back()["id"];
  }
  page["has_more"] = has_more;
  return page;
}

}  // namespace penstock::api
