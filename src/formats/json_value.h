// Reads JSON that a model writes, strictly where it stops, and passes it on as it comes. What models get
// wrong inside it is mended: raw control characters and unknown escapes in strings, Python's True, False and
// None, a comma too many.
#pragma once

#include <string>
#include <string_view>

#include "formats/input.h"
#include "formats/piece_writer.h"

namespace penstock::formats {

/// Where JSON text goes: to the arguments of the call that has begun, or to a string.
class JsonSink {
 public:
  explicit JsonSink(PieceWriter& arguments) : arguments_(&arguments) {}
  explicit JsonSink(std::string& text) : text_(&text) {}

  void add(std::string_view json) const {
    if (text_ != nullptr) {
      *text_ += json;
    } else {
      arguments_->arguments(json);
    }
  }

 private:
  PieceWriter* arguments_ = nullptr;
  std::string* text_ = nullptr;
};

/// One value, spaces before it passed over. False where it is none: what came before that is in the sink.
Step read_json(Input& in, JsonSink to);

/// A string from its quote on, with its quotes.
Step read_json_string(Input& in, JsonSink to);

/// A string from its quote on, decoded.
Step read_plain_string(Input& in, std::string& out);

/// A name of ASCII letters, digits and `also`, at most 256 bytes. False if it is empty.
Step read_name(Input& in, std::string_view also, std::string& out);

bool is_json_number(std::string_view text);

/// The text inside a JSON string that says `text`.
std::string escaped(std::string_view text);

}  // namespace penstock::formats
