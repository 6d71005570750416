// Keeps control tokens out of what clients write. Before a template is rendered, every control token's
// spelling in a client's text is put between two marks; after rendering, the marked spans are encoded as
// plain text and the rest as the template's own. Text without such spellings is not touched. Pure,
// thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "text/codec.h"

namespace penstock::serve {

/// The spellings of a codec's control tokens, made once per model.
class ControlSpellings {
 public:
  explicit ControlSpellings(const text::Codec& codec);

  /// Length of the longest control token that `text` starts with at `at`; 0 if none.
  size_t match(std::string_view text, size_t at) const;

 private:
  std::vector<std::vector<std::string>> by_first_byte_;  // [256], each longest first
};

/// Marks and encodes the texts of one request.
class GuardedText {
 public:
  /// `client` is everything of the client that the template will see; the marks are two characters that do
  /// not occur in it. Throws Error(kInvalidRequest) when it uses all of them.
  GuardedText(const ControlSpellings& spellings, const base::Json& client);

  /// A copy of `value` with every string in it marked, keys of objects too.
  base::Json mark(const base::Json& value) const;
  std::string mark(std::string_view text) const;

  /// Token ids of a rendered template.
  std::vector<int32_t> encode(const text::Codec& codec, std::string_view rendered) const;

 private:
  const ControlSpellings* spellings_;
  std::string open_, close_;
};

}  // namespace penstock::serve
