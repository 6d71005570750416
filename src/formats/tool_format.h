// What a tool format is: plain data with the steps that read it, one constant per format in a file of its
// own, all of them named in list.h.
#pragma once

#include <string_view>
#include <vector>

#include "formats/reading.h"

namespace penstock::formats {

struct MessageShape;

/// Where a marker may begin calls.
enum class Where {
  kAnywhere,
  kLineStart,    // nothing but space before it on its line
  kAnswerStart,  // nothing but space and other markup before it
};

/// A text that may begin calls. `read` goes on behind it: it begins and ends the calls, and is true with the
/// cursor behind their markup. Where it is false with no call begun, all of it is text; with a call begun,
/// what the cursor stands at is text again.
struct Opener {
  std::string_view marker;
  Step (*read)(Reading& r, const Opener& opener);
  std::string_view closer = {};  // what ends the calls; it may be missing
  Where where = Where::kAnywhere;
};

/// How calls are written when they are forced (call_grammar.h): texts with $name, $arguments (a JSON object),
/// $number (digits) and, where each parameter stands for itself, $parameters, each written as `parameter`
/// with $key, $value, $is_string ("true" or "false") and $type (as JSON Schema names it). Only what a model
/// would write by itself: the reader takes more.
struct CallShape {
  std::string_view call;  // empty: calls cannot be forced
  std::string_view before = {}, between = {}, after = {};
  std::string_view trigger = {};  // how `before` and `call` begin, where that tells a call from anything else
  std::string_view parameter = {};
  std::string_view separator = {};  // of parameters
  bool has_json_strings = false;    // strings of parameters are JSON, not plain text
};

class ToolFormat {
 public:
  std::string_view name;
  std::vector<std::vector<std::string_view>>
      found_by;                              // what a template with it contains: all of one of these
  std::vector<std::string_view> spelled;     // its control tokens, in so far as models have them as such
  std::vector<Opener> openers;               // the first that fits counts
  Step (*read_begin)(Reading& r) = nullptr;  // markup that only an output begins with; true with the cursor
                                             // behind it
  const MessageShape* messages = nullptr;    // outputs are messages with headers
  CallShape shape = {};
};

}  // namespace penstock::formats
