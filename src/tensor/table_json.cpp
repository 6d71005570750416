#include "tensor/table_json.h"

#include <unordered_set>
#include <vector>

#include "base/error.h"

namespace penstock::tensor {
namespace {

constexpr int kMaxDepth = 8;

base::Error corrupt(const std::string& what, const std::string& expected, const std::string& got) {
  return base::Error(base::Code::kCorrupt,
                     "[tensor.table] expected " + expected + " in " + what + "; got " + got);
}

}  // namespace

TableJson parse_table(std::string_view text, const std::string& what) {
  std::vector<std::unordered_set<std::string>> keys(kMaxDepth + 1);
  const auto on_event = [&](int depth, TableJson::parse_event_t event, TableJson& parsed) {
    if (depth > kMaxDepth) throw corrupt(what, "at most " + std::to_string(kMaxDepth) + " levels", "more");
    const auto level = static_cast<size_t>(depth);
    if (event == TableJson::parse_event_t::object_end)
      keys[level + 1 <= kMaxDepth ? level + 1 : level].clear();
    if (event == TableJson::parse_event_t::key && !keys[level].insert(parsed.get<std::string>()).second) {
      throw corrupt(what, "each name once", "two of " + parsed.get<std::string>());
    }
    return true;
  };
  try {
    return TableJson::parse(text, on_event);
  } catch (const nlohmann::json::exception& error) {
    throw corrupt(what, "a JSON header", error.what());
  }
}

}  // namespace penstock::tensor
