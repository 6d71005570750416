// Reads calls that are JSON objects with a name and arguments: {"name": "f", "arguments": {...}}, and lists
// of them.
#pragma once

#include <string_view>

#include "formats/reading.h"
#include "formats/tool_format.h"

namespace penstock::formats {

enum class OtherMembers {
  kPassedOver,  // between markers there is no doubt that it is a call
  kNone,        // bare: an object with members that no call has is an answer
};

/// One object, to its end; the call has then ended. False, with no call begun, where it is no call of a
/// declared tool. Names that are understood: "name", "tool_name", "function"; "arguments", "parameters";
/// "id", "tool_call_id", "type". Arguments may be an object, null, or a string with either in it.
Step read_json_call(Reading& r, OtherMembers others);

/// One object or a list of at least one. A call of the list that is none is text from its brace on.
Step read_json_calls(Reading& r, OtherMembers others);

/// Arguments as above of a call whose name and id were read elsewhere: begins it once they are some, and ends
/// it.
Step read_json_arguments(Reading& r, std::string_view name, std::string_view id);

/// For openers: objects and lists of them behind the marker, one after another, and the closer.
Step read_json_block(Reading& r, const Opener& opener);

/// For openers whose marker is the first byte of the JSON: calls with nothing around them.
Step read_bare_json(Reading& r, const Opener& opener);

}  // namespace penstock::formats
