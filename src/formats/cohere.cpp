// Command R7B, A and later: <|START_ACTION|>[{"tool_call_id": "0", "tool_name": "f", "parameters":
// {...}}]<|END_ACTION|> Command R: Action:
// ```json
// [{"tool_name": "f", "parameters": {...}}]
// ```
#include "formats/json_call.h"
#include "formats/list.h"

namespace penstock::formats {

const ToolFormat kCohere = {
    .name = "cohere2",
    .found_by = {{"<|START_ACTION|>"}},
    .spelled = {"<|START_ACTION|>", "<|END_ACTION|>"},
    .openers = {{"<|START_ACTION|>", read_json_block, "<|END_ACTION|>"}},
    .shape = {.call = "{\"tool_call_id\": \"$number\", \"tool_name\": \"$name\", \"parameters\": $arguments}",
              .before = "<|START_ACTION|>[\n    ",
              .between = ",\n    ",
              .after = "\n]<|END_ACTION|>",
              .trigger = "<|START_ACTION|>"},
};

const ToolFormat kCommandR = {
    .name = "command_r",
    .found_by = {{"Action:", "```json", "tool_name"}},
    .spelled = {},
    .openers = {{"Action:\n```json", read_json_block, "```"}, {"Action: ```json", read_json_block, "```"}},
    .shape = {.call = "{\"tool_name\": \"$name\", \"parameters\": $arguments}",
              .before = "Action:\n```json\n[",
              .between = ",\n",
              .after = "]\n```",
              .trigger = "Action:\n```json"},
};

}  // namespace penstock::formats
