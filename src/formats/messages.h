// Outputs that are a row of messages, each with a header that says what its body is: harmony (gpt-oss) and
// muse.
#pragma once

#include <string_view>
#include <vector>

#include "formats/reading.h"

namespace penstock::formats {

struct Opener;

struct MessageShape {
  std::vector<std::string_view> starts;        // what a header begins with
  std::vector<std::string_view> first_starts;  // and that of the first message, which the prompt began
  std::string_view body;                       // what a header ends with
  std::vector<std::string_view> ends;          // what a body ends with; another start does so too
  std::string_view thinks;                     // a header with this has reasoning as its body
  std::string_view recipient;  // before the name of the tool whose arguments the body is; empty: none
};

/// The whole output. Text without a header is text. `openers` begin calls inside bodies of text. Without
/// `has_reasoning` reasoning is text.
Step read_messages(Reading& r, const MessageShape& shape, const std::vector<Opener>& openers,
                   bool has_reasoning, bool in_reasoning);

}  // namespace penstock::formats
