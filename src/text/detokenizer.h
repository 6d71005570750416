// Turns the token ids of one sequence into text as they come. One per sequence, owned by the thread that
// pushes; it holds a few bytes and a pointer to the vocabulary, which must outlive it. It does not look for
// stop strings.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/pieces.h"

namespace penstock::text {

struct DetokenizerOptions {
  bool skip_special = true;           // control tokens add no text
  std::vector<int32_t> spelled = {};  // but for these few
  /// Whether the sequence starts a text (SentencePiece drops its first space there). False to continue
  /// another text.
  bool at_text_start = true;
};

/// Emits text as soon as it is certain: bytes that can still become a character are held back, bytes that
/// cannot are replaced by U+FFFD (one for each maximal ill-formed part, as Python's errors="replace" does).
class Detokenizer {
 public:
  explicit Detokenizer(const Pieces& pieces, DetokenizerOptions options = {});

  /// The text that `id` completes, valid UTF-8, often empty. Valid until the next call. An id beyond the
  /// vocabulary adds nothing.
  std::string_view push(int32_t id);

  /// What was held back at the end: U+FFFD for a character that never was completed, else empty. Same result
  /// for any way the ids were pushed.
  std::string_view finish();

 private:
  const Pieces* pieces_;
  DetokenizerOptions options_;
  bool at_start_;        // no token has added text yet
  std::string pending_;  // an incomplete character, at most 3 bytes
  std::string out_;
};

}  // namespace penstock::text
