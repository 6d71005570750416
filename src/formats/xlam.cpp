// [{"name": "f", "arguments": {...}}], maybe in a fence, and nothing before it.
#include "formats/json_call.h"
#include "formats/list.h"

namespace penstock::formats {

const ToolFormat kXlam = {
    .name = "xlam",
    .found_by = {{"[{\"name\": \"func_name1\", \"arguments\""}},
    .spelled = {},
    .openers = {{"[", read_bare_json, "", Where::kAnswerStart},
                {"{", read_bare_json, "", Where::kAnswerStart},
                {"```json", read_json_block, "```", Where::kAnswerStart},
                {"```", read_json_block, "```", Where::kAnswerStart}},
    .shape = {.call = "{\"name\": \"$name\", \"arguments\": $arguments}",
              .before = "[",
              .between = ", ",
              .after = "]"},
};

}  // namespace penstock::formats
