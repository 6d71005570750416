// The outermost steps: an output is text with reasoning between tags and calls behind openers. Space that
// touches markup belongs to it.
#pragma once

#include "formats/reading.h"
#include "formats/reasoning_format.h"
#include "formats/tool_format.h"

namespace penstock::formats {

/// The whole output. Null formats are not looked for.
Step read_answer(Reading& r, const ToolFormat* tools, const ReasoningFormat* reasoning, bool in_reasoning);

}  // namespace penstock::formats
