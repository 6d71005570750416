#include "api/admin/body.h"

#include <algorithm>
#include <string>

#include "api/body.h"
#include "base/error.h"

namespace penstock::api::admin {

base::Json read_body(const http::Request& request, std::initializer_list<std::string_view> names) {
  if (request.body.empty()) return base::Json::object();
  base::Json body = parse_body(request);
  for (const auto& [name, value] : body.items()) {
    if (std::find(names.begin(), names.end(), name) != names.end()) continue;
    std::string known;
    for (const std::string_view one : names) known += (known.empty() ? "" : ", ") + std::string(one);
    throw base::Error(
        base::Code::kInvalidRequest,
        "[api.admin] expected no fields but " + (known.empty() ? "none" : known) + "; got " + name, name);
  }
  return body;
}

}  // namespace penstock::api::admin
