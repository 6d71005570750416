// Writes the arguments of a call whose format names them one by one.
#pragma once

#include <string_view>

#include "formats/json_value.h"
#include "formats/reading.h"

namespace penstock::formats {

class ArgumentWriter {
 public:
  explicit ArgumentWriter(Reading& r) : out_(r.out) {}

  /// The next name; its value is added to the sink.
  void key(std::string_view name) {
    out_.arguments(is_open_ ? ", \"" : "{\"");
    out_.arguments(escaped(name));
    out_.arguments("\": ");
    is_open_ = true;
  }

  bool is_open() const { return is_open_; }

  /// After the last one: the call ends.
  void end() {
    out_.arguments(is_open_ ? "}" : "{}");
    out_.end_call();
  }

 private:
  PieceWriter& out_;
  bool is_open_ = false;
};

}  // namespace penstock::formats
