// Finds stop strings in a stream of text and holds back what may become one. One per sequence, owned by the
// thread that pushes; no state is shared between sequences. It works on UTF-8 text and knows nothing of
// tokens.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace penstock::text {

class StopText {
 public:
  /// Empty strings among `stops` are ignored.
  explicit StopText(std::vector<std::string> stops);

  struct Emitted {
    std::string_view text;  // certain text, valid until the next call
    bool matched = false;   // a stop string was found: nothing more will be emitted
  };

  /// Text that no stop string can reach any more. The earliest end of any stop wins; among stops that end
  /// there, the longest. The stop itself is never emitted. The result does not depend on how the text was
  /// cut.
  Emitted push(std::string_view text);

  /// The held-back text, once no more comes. Empty after a match.
  std::string_view finish();

  /// Which stop string matched, if one did.
  const std::string* matched() const { return matched_; }

 private:
  size_t longest_partial() const;

  std::vector<std::string> stops_;
  size_t longest_ = 0;  // bytes of the longest stop
  std::string held_;
  std::string out_;
  const std::string* matched_ = nullptr;
};

}  // namespace penstock::text
