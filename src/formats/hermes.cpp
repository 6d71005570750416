// <tool_call>
// {"name": "f", "arguments": {...}}
// </tool_call>
#include "formats/json_call.h"
#include "formats/list.h"

namespace penstock::formats {

const ToolFormat kHermes = {
    .name = "hermes",
    .found_by = {{"<tool_call>"}},
    .spelled = {"<tool_call>", "</tool_call>"},
    .openers = {{"<tool_call>", read_json_block, "</tool_call>"}},
    .shape = {.call = "<tool_call>\n{\"name\": \"$name\", \"arguments\": $arguments}\n</tool_call>",
              .between = "\n",
              .trigger = "<tool_call>"},
};

}  // namespace penstock::formats
