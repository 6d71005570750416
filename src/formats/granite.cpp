// <|tool_call|>[{"name": "f", "arguments": {...}}], or between the tags of hermes.
#include "formats/json_call.h"
#include "formats/list.h"

namespace penstock::formats {

const ToolFormat kGranite = {
    .name = "granite",
    .found_by = {{"<|tool_call|>"}},
    .spelled = {"<|tool_call|>", "<tool_call>", "</tool_call>"},
    .openers = {{"<|tool_call|>", read_json_block}, {"<tool_call>", read_json_block, "</tool_call>"}},
    .shape = {.call = "{\"name\": \"$name\", \"arguments\": $arguments}",
              .before = "<|tool_call|>[",
              .between = ", ",
              .after = "]",
              .trigger = "<|tool_call|>"},
};

}  // namespace penstock::formats
