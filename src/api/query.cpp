#include "api/query.h"

#include <algorithm>
#include <charconv>

#include "base/error.h"
#include "http/uri.h"

namespace penstock::api {

using base::Code;
using base::Error;

Query::Query(const http::Request& request) {
  auto fields = http::parse_query(request.query);
  if (!fields)
    throw Error(Code::kInvalidRequest, "[api.query] expected a query without broken escapes; got one");
  fields_ = std::move(*fields);
}

void Query::reject(std::string_view name, const std::string& expected) const {
  throw Error(Code::kInvalidRequest,
              "[api.query] expected " + std::string(name) + " to be " + expected + "; got " +
                  text(name).value_or("nothing").substr(0, 80),
              std::string(name));
}

std::optional<std::string> Query::text(std::string_view name) const {
  const auto found =
      std::find_if(fields_.rbegin(), fields_.rend(), [&](const auto& f) { return f.first == name; });
  if (found == fields_.rend() || found->second.empty()) return std::nullopt;
  return found->second;
}

std::optional<int64_t> Query::integer(std::string_view name, int64_t min, int64_t max) const {
  const auto value = text(name);
  if (!value) return std::nullopt;
  int64_t number = 0;
  const auto [end, error] = std::from_chars(value->data(), value->data() + value->size(), number);
  if (error != std::errc{} || end != value->data() + value->size() || number < min || number > max)
    reject(name, "a whole number from " + std::to_string(min) + " to " + std::to_string(max));
  return number;
}

std::optional<bool> Query::boolean(std::string_view name) const {
  const auto value = choice(name, {"true", "false"});
  return value ? std::optional(*value == "true") : std::nullopt;
}

std::optional<std::string> Query::choice(std::string_view name,
                                         std::initializer_list<std::string_view> choices) const {
  const auto value = text(name);
  if (!value || std::find(choices.begin(), choices.end(), *value) != choices.end()) return value;
  std::string list;
  for (const std::string_view one : choices) list += (list.empty() ? "" : " or ") + std::string(one);
  reject(name, list);
}

}  // namespace penstock::api
