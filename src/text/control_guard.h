// Keeps text that a client sends from becoming control tokens: `<|im_end|>` typed by a user stays text.
// Immutable; any thread may use it. It guards special tokens only: added tokens that are not special
// (`<think>`, `<tool_call>`) are still recognised, as models are trained to read them from text.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "text/pieces.h"

namespace penstock::text {

/// Fence what the client sent, render the template, mark what is still fenced, and encode that with
/// encode_marked: the template's own control tokens are read as such, the client's as part of the text around
/// them. U+FDD0 and U+FDD1 are the fences, U+FDD2 is the mark; a client's own are dropped.
class ControlGuard {
 public:
  explicit ControlGuard(const Pieces& vocabulary);

  /// `text` with fences around every special token that it spells. (Around, not inside: templates look for
  /// some of them, and cut the text there.)
  std::string fence(std::string_view text) const;

  /// `value` with every string inside fenced, names in objects too.
  base::Json fence_strings(const base::Json& value) const;

  /// A rendered template with a mark inside every special token that is fenced. Fences go; of a pair that the
  /// template took apart, both.
  std::string mark(std::string_view rendered) const;

 private:
  size_t longest(std::string_view text) const;
  size_t spelled(std::string_view text) const;

  std::vector<std::vector<std::string>> by_first_byte_;  // [256], each longest first
};

}  // namespace penstock::text
