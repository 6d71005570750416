// <seed:tool_call><function=f><parameter=k>v</parameter></function></seed:tool_call>
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
};

Step read_block(Reading& r, const Opener& opener) {
  return read_tagged_block(r, kTags, opener.closer);
}

}  // namespace

const ToolFormat kSeed = {
    .name = "seed_oss",
    .found_by = {{"<seed:tool_call>"}},
    .spelled = {"<seed:tool_call>", "</seed:tool_call>"},
    .openers = {{"<seed:tool_call>", read_block, "</seed:tool_call>"}},
    .shape = {.call = "<seed:tool_call>\n<function=$name>\n$parameters</function>\n</seed:tool_call>",
              .between = "\n",
              .trigger = "<seed:tool_call>",
              .parameter = "<parameter=$key>$value</parameter>\n"},
};

}  // namespace penstock::formats
