#include "library/names.h"

#include <algorithm>
#include <cctype>

namespace penstock::library {
namespace {

constexpr std::string_view kLatest = ":latest";

bool is_part(std::string_view part) {
  constexpr size_t kMostBytes = 80;
  return !part.empty() && part.size() <= kMostBytes && part.front() != '.' &&
         std::all_of(part.begin(), part.end(), [](unsigned char c) {
           return std::isalnum(c) != 0 || c == '.' || c == '_' || c == '-';
         });
}

}  // namespace

size_t tag_of(std::string_view name) {
  const size_t colon = name.rfind(':');
  if (colon == std::string_view::npos || name.find('/', colon) != std::string_view::npos)
    return std::string_view::npos;
  return colon + 1;
}

bool is_model_name(std::string_view name) {
  if (const size_t tag = tag_of(name); tag != std::string_view::npos) {
    if (!is_part(name.substr(tag))) return false;
    name = name.substr(0, tag - 1);
  }
  constexpr int kMostParts = 3;
  for (int part = 0; part < kMostParts; ++part) {
    const size_t slash = name.find('/');
    if (!is_part(name.substr(0, slash))) return false;
    if (slash == std::string_view::npos) return true;
    name = name.substr(slash + 1);
  }
  return false;
}

std::string_view without_latest(std::string_view name) {
  return name.ends_with(kLatest) ? name.substr(0, name.size() - kLatest.size()) : name;
}

std::string with_tag(std::string_view name) {
  std::string whole(name);
  if (tag_of(name) == std::string_view::npos) whole += kLatest;
  return whole;
}

}  // namespace penstock::library
