// The tables of fields in docs/reference, for comparing them with the program's.
#pragma once

#include <fstream>
#include <iterator>
#include <set>
#include <span>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "api/fields.h"

namespace penstock::api::testing {

using Rows = std::set<std::pair<std::string, std::string>>;  // name, set

inline std::string read_file(const std::string& path) {
  std::ifstream file(std::string(PENSTOCK_SOURCE_DIR) + "/" + path);
  EXPECT_TRUE(file.good()) << path;
  return {std::istreambuf_iterator<char>(file), {}};
}

/// Names in the table under a heading of a page: "| `name` | set | ...".
inline Rows documented(const std::string& page, const std::string& heading) {
  Rows rows;
  size_t at = page.find(heading);
  EXPECT_NE(at, std::string::npos) << heading;
  const size_t end = page.find("\n## ", at + 1);
  while ((at = page.find("\n| `", at)) < end) {
    const size_t name_end = page.find('`', at + 4);
    const size_t set_start = page.find("| ", name_end) + 2;
    rows.emplace(page.substr(at + 4, name_end - at - 4),
                 page.substr(set_start, page.find(' ', set_start) - set_start));
    at = name_end;
  }
  return rows;
}

inline Rows rows_of(std::span<const Field> fields) {
  Rows rows;
  for (const Field& field : fields) {
    const char* set = field.set == FieldSet::kHonoured   ? "honoured"
                      : field.set == FieldSet::kAccepted ? "accepted"
                                                         : "refused";
    rows.emplace(field.name, set);
  }
  return rows;
}

}  // namespace penstock::api::testing
