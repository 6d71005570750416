// Strict reading of the fields of a URL's query: a value of the wrong kind throws Error(kInvalidRequest) with
// the field's name. Names that are not asked for are let through. Pure.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "http/message.h"

namespace penstock::api {

class Query {
 public:
  explicit Query(const http::Request& request);

  /// The last value of that name; an empty one counts as absent.
  std::optional<std::string> text(std::string_view name) const;
  std::optional<int64_t> integer(std::string_view name, int64_t min, int64_t max) const;
  std::optional<bool> boolean(std::string_view name) const;
  std::optional<std::string> choice(std::string_view name,
                                    std::initializer_list<std::string_view> choices) const;

 private:
  [[noreturn]] void reject(std::string_view name, const std::string& expected) const;

  std::vector<std::pair<std::string, std::string>> fields_;
};

}  // namespace penstock::api
