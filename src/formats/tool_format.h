// What a tool format is: plain data with the steps that read it, one constant per format in a file of its own,
// all of them named in list.h.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "formats/reading.h"

namespace penstock::formats {

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
  Step (*read)(Reading& r);
  Where where = Where::kAnywhere;
};

class ToolFormat {
 public:
  std::string_view name;
  bool (*is_in)(std::string_view chat_template);  // whether the template writes calls this way
  std::vector<std::string_view> spelled;          // its control tokens, in so far as models have them as such
  std::vector<Opener> openers;                    // the first that fits counts
};

}  // namespace penstock::formats
