#include "base/json.h"

#include <string>

#include "base/json_reader.h"

namespace penstock::base {
namespace {

/// Calls on_char for every character outside strings and copies the rest; on_char returns how many it
/// consumed.
template <class OnChar>
void scan_outside_strings(std::string_view text, OnChar on_char) {
  bool in_string = false;
  for (size_t i = 0; i < text.size();) {
    if (in_string && text[i] == '\\') {
      i += 2;
    } else if (text[i] == '"') {
      in_string = !in_string;
      ++i;
    } else {
      i += in_string ? 1 : on_char(i);
    }
  }
}

std::string without_python_numbers(std::string_view text) {
  std::string out;
  size_t copied = 0;
  const auto replace = [&](size_t at, size_t length, std::string_view by) {
    out.append(text.substr(copied, at - copied)).append(by);
    copied = at + length;
    return length;
  };
  scan_outside_strings(text, [&](size_t i) -> size_t {
    if (text.substr(i).starts_with("Infinity")) return replace(i, 8, "1.7976931348623157e308");
    if (text.substr(i).starts_with("NaN")) return replace(i, 3, "null");
    return 1;
  });
  out.append(text.substr(copied));
  return out;
}

}  // namespace

bool is_nested_deeper(std::string_view text, int max_depth) {
  int depth = 0;
  bool is_deeper = false;
  scan_outside_strings(text, [&](size_t i) {
    if (text[i] == '[' || text[i] == '{') ++depth;
    if (text[i] == ']' || text[i] == '}') --depth;
    is_deeper = is_deeper || depth > max_depth;
    return 1;
  });
  return is_deeper;
}

Json parse_json(std::string_view text, std::string_view what, int max_depth) {
  return read_json(text, what, {.depth = static_cast<size_t>(max_depth)});
}

Json parse_python_json(std::string_view text, std::string_view what) {
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  return parse_json(without_python_numbers(text), what);
}

}  // namespace penstock::base
