// Writes the pieces of an output, neighbours of a kind joined. Owned by one parser.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "formats/output_parser.h"

namespace penstock::formats {

class PieceWriter {
 public:
  /// Where pieces go from now on.
  void into(std::vector<Piece>* out) { out_ = out; }

  void text(std::string_view bytes, size_t begin) { add<Text>(bytes, begin); }
  void reasoning(std::string_view bytes, size_t begin) { add<Reasoning>(bytes, begin); }
  void begin_call(std::string name, std::string id);
  void arguments(std::string_view json);
  void end_call() { out_->push_back(CallEnd{}); }

  /// Calls so far: tells a reader that gave up before its call began from one that did so later.
  size_t calls() const { return calls_; }

 private:
  template <class Kind>
  void add(std::string_view bytes, size_t begin) {
    if (bytes.empty()) return;
    Kind* last = out_->empty() ? nullptr : std::get_if<Kind>(&out_->back());
    if (last != nullptr && last->begin + last->text.size() == begin) {
      last->text += bytes;
    } else {
      out_->push_back(Kind{std::string(bytes), begin});
    }
  }

  std::vector<Piece>* out_ = nullptr;
  size_t calls_ = 0;
};

}  // namespace penstock::formats
