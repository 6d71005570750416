// Reads calls whose parameters stand between tags as plain text, typed by the tool's schema:
// <function=f><parameter=k>v</parameter></function> and its relatives.
#pragma once

#include <string_view>

#include "formats/reading.h"
#include "formats/tool_format.h"

namespace penstock::formats {

/// How one format writes its tags. Empty: it has none of these.
struct Tags {
  std::string_view call;            // before the name: "<function="
  std::string_view name_end;        // behind it; empty: the name ends where no letter of a name comes
  std::string_view call_head_end;   // behind attributes of the call: ">"
  std::string_view parameter;       // before a parameter's name: "<parameter="
  std::string_view key_end;         // behind it
  std::string_view attributes_end;  // behind attributes of the parameter
  std::string_view value;           // before the value, after any space
  std::string_view value_end;       // "</parameter>"
  std::string_view call_end;        // "</function>"
  bool has_lines = false;           // a line end inside both of a value's tags belongs to them
  bool has_cdata = false;           // a value may be <![CDATA[...]]>
};

/// One call from behind `tags.call`, to behind its end; `block_end` ends it too, and is left. A value ends at
/// a tag only where what follows goes on with the call, so that a value may have the tag in it.
Step read_tagged_call(Reading& r, const Tags& tags, std::string_view block_end);

/// For openers that a call's own tag follows: all calls up to the closer.
Step read_tagged_block(Reading& r, const Tags& tags, std::string_view closer);

}  // namespace penstock::formats
