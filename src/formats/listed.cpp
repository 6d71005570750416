// Lists of JSON calls between two markers:
// <tool_calls>[{"name": "f", "arguments": {...}}]</tool_calls>  of Apriel; without brackets of MiniMax M1
// <TOOLCALL>[{"name": "f", "arguments": {...}}]</TOOLCALL>      of Nemotron 2
// <|function_call|>{"name": "f", "arguments": {...}}            of GigaChat 3.1; 3 writes a message of its
// own functools[{"name": "f", "arguments": {...}}]                  of FireFunction
#include "formats/json_call.h"
#include "formats/list.h"

namespace penstock::formats {

const ToolFormat kToolCalls = {
    .name = "tool_calls",
    .found_by = {{"<tool_calls>"}},
    .spelled = {"<tool_calls>", "</tool_calls>"},
    .openers = {{"<tool_calls>", read_json_block, "</tool_calls>"},
                {"<tool_call>", read_json_block, "</tool_call>"}},
    .shape = {.call = "{\"name\": \"$name\", \"arguments\": $arguments}",
              .before = "<tool_calls>[",
              .between = ", ",
              .after = "]</tool_calls>",
              .trigger = "<tool_calls>"},
};

const ToolFormat kNemotron = {
    .name = "nemotron2",
    .found_by = {{"<TOOLCALL>"}},
    .spelled = {"<TOOLCALL>", "</TOOLCALL>"},
    .openers = {{"<TOOLCALL>", read_json_block, "</TOOLCALL>"}},
    .shape = {.call = "{\"name\": \"$name\", \"arguments\": $arguments}",
              .before = "<TOOLCALL>[",
              .between = ", ",
              .after = "]</TOOLCALL>",
              .trigger = "<TOOLCALL>"},
};

const ToolFormat kGigaChat = {
    .name = "gigachat",
    .found_by = {{"<|role_sep|>", "function"}},
    .spelled = {"<|function_call|>", "<|message_sep|>", "<|role_sep|>"},
    .openers = {{"<|function_call|>", read_json_block},
                {"<|message_sep|>\n\nfunction call<|role_sep|>\n", read_json_block}},
    .shape = {.call = "<|function_call|>{\"name\": \"$name\", \"arguments\": $arguments}",
              .trigger = "<|function_call|>"},
};

const ToolFormat kFunctools = {
    .name = "functools",
    .found_by = {{"functools["}},
    .spelled = {},
    .openers = {{"functools", read_json_block}},
    .shape = {.call = "{\"name\": \"$name\", \"arguments\": $arguments}",
              .before = "functools[",
              .between = ", ",
              .after = "]",
              .trigger = "functools["},
};

}  // namespace penstock::formats
