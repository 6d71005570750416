// All formats, in the order in which a template is asked for them: the special before the general.
#pragma once

#include <array>

#include "formats/reasoning_format.h"
#include "formats/tool_format.h"

namespace penstock::formats {

extern const ToolFormat kHermes;

inline const std::array kToolFormats = {&kHermes};

/// In reasoning.cpp.
const std::vector<ReasoningFormat>& reasoning_formats();

}  // namespace penstock::formats
