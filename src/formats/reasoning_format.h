// What a reasoning format is: plain data, all of them in reasoning.cpp.
#pragma once

#include <string_view>
#include <vector>

namespace penstock::formats {

class ReasoningFormat {
 public:
  std::string_view name;
  std::vector<std::string_view> found_by;  // what a template with it contains, all of them
  std::string_view open, close;
  std::vector<std::string_view> dropped;  // markup around the answer, which adds no text
};

}  // namespace penstock::formats
