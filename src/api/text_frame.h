// The SSE event of a text delta without its JSON document: all deltas of one choice or block are the same but
// for their text. Owned by one answer; one thread at a time.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "base/json.h"

namespace penstock::api {

class TextFrame {
 public:
  /// `chunk` makes the chunk of a text, in which the text stands as it is. `name` is the event's, if it has
  /// one.
  explicit TextFrame(const std::function<base::Json(const std::string& text)>& chunk,
                     std::string_view name = {});

  /// The same bytes as the event of chunk(text), until the next call.
  std::string_view event(std::string_view text);

 private:
  std::string before_, after_, event_;
};

}  // namespace penstock::api
