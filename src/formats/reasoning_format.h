// What a reasoning format is: plain data, all of them in reasoning.cpp.
#pragma once

#include <string_view>
#include <vector>

namespace penstock::formats {

struct MessageShape;

class ReasoningFormat {
 public:
  std::string_view name;
  std::vector<std::vector<std::string_view>>
      found_by;  // what a template with it contains: all of one of these
  std::string_view open, close;
  std::vector<std::string_view> dropped = {};  // markup around the answer, which adds no text
  std::vector<std::string_view> spelled = {};  // its control tokens; empty: those above are
  bool are_tags_text = false;  // prose may have what is dropped: only before and behind all text it is markup
  const MessageShape* messages = nullptr;  // outputs are messages with headers; `open` is as a prompt has it
};

}  // namespace penstock::formats
