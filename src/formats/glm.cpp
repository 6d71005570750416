// <tool_call>f
// <arg_key>k</arg_key>
// <arg_value>v</arg_value>
// </tool_call>
// and the same with tags of other names.
#include "formats/list.h"
#include "formats/tagged_call.h"

namespace penstock::formats {
namespace {

constexpr Tags kTags = {
    .parameter = "<arg_key>",
    .key_end = "</arg_key>",
    .value = "<arg_value>",
    .value_end = "</arg_value>",
    .call_end = "</tool_call>",
};

constexpr Tags kLongcatTags = {
    .parameter = "<longcat_arg_key>",
    .key_end = "</longcat_arg_key>",
    .value = "<longcat_arg_value>",
    .value_end = "</longcat_arg_value>",
    .call_end = "</longcat_tool_call>",
};

Step read_glm(Reading& r, const Opener&) {
  return read_tagged_call(r, kTags, "");
}

Step read_longcat(Reading& r, const Opener&) {
  return read_tagged_call(r, kLongcatTags, "");
}

}  // namespace

const ToolFormat kGlm = {
    .name = "glm",
    .found_by = {{"<arg_key>", "<tool_call>"}},
    .spelled = {"<tool_call>", "</tool_call>", "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>"},
    .openers = {{"<tool_call>", read_glm}},
    .shape = {.call = "<tool_call>$name\n$parameters</tool_call>",
              .between = "\n",
              .trigger = "<tool_call>",
              .parameter = "<arg_key>$key</arg_key>\n<arg_value>$value</arg_value>\n"},
};

const ToolFormat kLongcat = {
    .name = "longcat",
    .found_by = {{"<longcat_tool_call>"}},
    .spelled = {"<longcat_tool_call>", "</longcat_tool_call>", "<longcat_arg_key>", "</longcat_arg_key>",
                "<longcat_arg_value>", "</longcat_arg_value>"},
    .openers = {{"<longcat_tool_call>", read_longcat}},
    .shape = {.call = "<longcat_tool_call>$name\n$parameters</longcat_tool_call>",
              .between = "\n",
              .trigger = "<longcat_tool_call>",
              .parameter =
                  "<longcat_arg_key>$key</longcat_arg_key>\n<longcat_arg_value>$value</longcat_arg_value>\n"},
};

}  // namespace penstock::formats
