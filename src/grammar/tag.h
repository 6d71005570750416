// A text that is looked for in the bytes of tokens as they come, also where it spans several of them or ends
// within one. Immutable and thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/pieces.h"

namespace penstock::grammar {

class Tag {
 public:
  /// `text` is not empty.
  Tag(const text::Pieces& pieces, std::string text);

  const std::string& text() const { return text_; }

  struct Step {
    size_t matched = 0;         // bytes of the tag that the text ends with, less than all
    std::optional<size_t> end;  // of the piece, where the tag was first complete
  };
  /// Behind a text that ends with `matched` bytes of the tag.
  Step advance(size_t matched, std::string_view piece) const;

  /// A token that would complete the tag and has more behind it.
  struct Closer {
    int32_t token = -1;
    std::string_view rest;  // of the piece, which lives with the vocabulary
  };
  const std::vector<Closer>& closers(size_t matched) const { return closers_[matched]; }

  /// Tokens that go on with the tag's bytes from `matched` on, as far as they reach.
  const std::vector<int32_t>& openers(size_t matched) const { return openers_[matched]; }

 private:
  void find_closers(const text::Pieces& pieces);
  void find_openers(const text::Pieces& pieces);

  const std::string text_;
  std::vector<size_t> border_;                // [bytes + 1] longest proper prefix that the prefix ends with
  std::vector<std::vector<Closer>> closers_;  // [bytes]
  std::vector<std::vector<int32_t>> openers_;
};

}  // namespace penstock::grammar
