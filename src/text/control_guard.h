// Keeps text that a client sends from becoming control tokens: `<|im_end|>` typed by a user stays text.
// Immutable; any thread may use it. It guards special tokens only: added tokens that are not special
// (`<think>`, `<tool_call>`) are still recognised, as models are trained to read them from text.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "text/tokenizer.h"

namespace penstock::text {

/// Mark what the client sent, render the template, then Tokenizer::encode_marked: the template's own control
/// tokens are read as such, marked ones as text. Markers that a client sends are dropped first.
class ControlGuard {
 public:
  explicit ControlGuard(const Tokenizer& tokenizer);

  /// `text` with a mark inside each special token that it spells.
  std::string mark(std::string_view text) const;

  /// `value` with every string inside marked; object keys are kept as they are.
  base::Json mark_strings(const base::Json& value) const;

  /// `text` without marks, for showing a rendered prompt.
  static std::string unmark(std::string_view text);

 private:
  std::vector<std::string> specials_;  // longest first
  std::string first_bytes_;            // the bytes that a special token can start with
};

}  // namespace penstock::text
