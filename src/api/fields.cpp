#include "api/fields.h"

#include <algorithm>

#include "base/error.h"

namespace penstock::api {

std::vector<std::string> unknown_fields(const base::Json& body, std::span<const Field> fields) {
  std::vector<std::string> unknown;
  for (const auto& [key, value] : body.items()) {
    const auto found =
        std::find_if(fields.begin(), fields.end(), [&](const Field& f) { return f.name == key; });
    if (found == fields.end()) {
      unknown.push_back(key);
    } else if (found->set == FieldSet::kRefused && !value.is_null()) {
      const std::string advice = found->instead.empty() ? "" : "; use " + std::string(found->instead);
      throw base::Error(base::Code::kUnsupported,
                        "[api.decode] expected no " + key + ": it is not supported here" + advice, key);
    }
  }
  return unknown;
}

}  // namespace penstock::api
