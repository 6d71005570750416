// What detokenising needs of a vocabulary: the bytes of each token. Implemented by Tokenizer and by every
// Codec. Immutable and thread-safe.
#pragma once

#include <cstdint>
#include <string_view>

namespace penstock::text {

/// What happens to spaces at the start of a decoded text: the first one goes, or all of the first token.
enum class LeadingSpace { kKeep, kStripOne, kStripFirstToken };

class Pieces {
 public:
  virtual ~Pieces() = default;

  /// The bytes that a token adds to the text; may be part of a UTF-8 character. Empty for ids without a
  /// token. Valid as long as the vocabulary.
  virtual std::string_view piece(int32_t id) const = 0;

  /// Control tokens, which decoding can leave out. False for ids without a token.
  virtual bool is_special(int32_t id) const = 0;

  virtual LeadingSpace leading_space() const = 0;

  /// One more than the largest id; a model may have more rows of logits than that.
  virtual int32_t vocab_size() const = 0;
};

}  // namespace penstock::text
