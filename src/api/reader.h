// Strict reading of the fields of a JSON object: a value of the wrong type or out of range throws
// Error(kInvalidRequest) with the field's path. Absent and null are the same: nothing. Pure.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"

namespace penstock::api {

class Reader {
 public:
  /// `path` is put before the fields' names ("stream_options."). `object` must be an object and outlive it.
  explicit Reader(const base::Json& object, std::string path = {});

  /// The field if it is there and not null.
  const base::Json* find(std::string_view name) const;

  std::optional<bool> boolean(std::string_view name) const;
  std::optional<std::string> string(std::string_view name) const;
  std::optional<double> number(std::string_view name, double min, double max) const;
  std::optional<int64_t> integer(std::string_view name, int64_t min,
                                 int64_t max = std::numeric_limits<int64_t>::max()) const;

  std::string path(std::string_view name) const { return path_ + std::string(name); }

  /// Throws for this field: "expected <field> to be <expected>; got <the value, cut>".
  [[noreturn]] void reject(std::string_view name, const std::string& expected) const;

 private:
  const base::Json* object_;
  std::string path_;
};

/// A value as it is shown in an error, cut to a readable length.
std::string shown(const base::Json& value);

}  // namespace penstock::api
