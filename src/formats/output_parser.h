// What a model writes, understood piece by piece: text, reasoning, tool calls. One parser per choice, used by
// one thread at a time. It sees text (control tokens that its format needs are spelled in it), no tokens.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace penstock::formats {

/// Text of the answer, or of the reasoning: the bytes [begin, begin + text.size()) of what was pushed, so
/// that log probabilities can be matched with it. Markup belongs to no piece.
struct Text {
  std::string text;
  size_t begin = 0;
};
struct Reasoning {
  std::string text;
  size_t begin = 0;
};

/// A call begins, as soon as its name is known and is one of the tools'.
struct CallBegin {
  std::string name;
  std::string id;  // that the model wrote; empty: none
};

/// The next part of the call's arguments: all parts joined are one JSON object.
struct CallArguments {
  std::string json;
};

/// The call is complete. One that the output breaks off in has no end.
struct CallEnd {};

using Piece = std::variant<Text, Reasoning, CallBegin, CallArguments, CallEnd>;

class OutputParser {
 public:
  virtual ~OutputParser() = default;

  /// Appends what is certain after this text. The pieces, neighbours of a kind joined, do not depend on how
  /// the text was cut.
  virtual void push(std::string_view text, std::vector<Piece>& out) = 0;

  /// Appends what was held back, once no more comes. What only looked like markup is text.
  virtual void finish(std::vector<Piece>& out) = 0;
};

}  // namespace penstock::formats
