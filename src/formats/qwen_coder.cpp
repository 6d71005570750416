// <tool_call>
// <function=f>
// <parameter=k>
// v
// </parameter>
// </function>
// </tool_call>
// The outer tags may be missing.
#include "formats/list.h"
#include "formats/tagged_call.h"

namespace penstock::formats {
namespace {

constexpr Tags kTags = {
    .call = "<function=",
    .name_end = ">",
    .parameter = "<parameter=",
    .key_end = ">",
    .value_end = "</parameter>",
    .call_end = "</function>",
    .has_lines = true,
};

Step read_block(Reading& r, const Opener& opener) {
  return read_tagged_block(r, kTags, opener.closer);
}

Step read_call(Reading& r, const Opener& opener) {
  const bool is_call = co_await read_tagged_call(r, kTags, opener.closer);
  if (!is_call) co_return false;
  co_await skip_space(r.in);
  co_await r.in.accept(opener.closer);
  co_return true;
}

}  // namespace

const ToolFormat kQwenCoder = {
    .name = "qwen3_coder",
    .found_by = {{"<function=", "<parameter="}},
    .spelled = {"<tool_call>", "</tool_call>"},
    .openers = {{"<tool_call>", read_block, "</tool_call>"}, {"<function=", read_call, "</tool_call>"}},
    .shape = {.call = "<tool_call>\n<function=$name>\n$parameters</function>\n</tool_call>",
              .between = "\n",
              .trigger = "<tool_call>",
              .parameter = "<parameter=$key>\n$value\n</parameter>\n"},
};

}  // namespace penstock::formats
