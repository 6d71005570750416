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

  void text(std::string_view bytes, size_t begin);
  void reasoning(std::string_view bytes, size_t begin);
  void begin_call(const std::string& name, const std::string& id);
  void arguments(std::string_view json);
  void end_call();

  /// Calls so far: tells a reader that gave up before its call began from one that did so later.
  size_t calls() const { return calls_; }

 private:
  std::vector<Piece>* out_ = nullptr;
  size_t calls_ = 0;
};

}  // namespace penstock::formats
