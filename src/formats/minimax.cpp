// <minimax:tool_call><invoke name="f"><parameter name="k">v</parameter></invoke></minimax:tool_call>
#include "formats/list.h"
#include "formats/tagged_call.h"

namespace penstock::formats {
namespace {

constexpr Tags kTags = {
    .call = "<invoke name=\"",
    .name_end = "\"",
    .call_head_end = ">",
    .parameter = "<parameter name=\"",
    .key_end = "\"",
    .attributes_end = ">",
    .value_end = "</parameter>",
    .call_end = "</invoke>",
};

Step read_block(Reading& r, const Opener& opener) {
  return read_tagged_block(r, kTags, opener.closer);
}

}  // namespace

const ToolFormat kMiniMax = {
    .name = "minimax",
    .found_by = {{"<minimax:tool_call>"}},
    .spelled = {"<minimax:tool_call>", "</minimax:tool_call>"},
    .openers = {{"<minimax:tool_call>", read_block, "</minimax:tool_call>"}},
    .shape = {.call = "<invoke name=\"$name\">\n$parameters</invoke>\n",
              .before = "<minimax:tool_call>\n",
              .after = "</minimax:tool_call>",
              .trigger = "<minimax:tool_call>",
              .parameter = "<parameter name=\"$key\">$value</parameter>\n"},
};

}  // namespace penstock::formats
