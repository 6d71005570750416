// <function name="f"><param name="k">v</param></function>, values plain or <![CDATA[v]]>.
#include "formats/list.h"
#include "formats/tagged_call.h"

namespace penstock::formats {
namespace {

constexpr Tags kTags = {
    .call = "<function name=\"",
    .name_end = "\"",
    .call_head_end = ">",
    .parameter = "<param name=\"",
    .key_end = "\"",
    .attributes_end = ">",
    .value_end = "</param>",
    .call_end = "</function>",
    .has_cdata = true,
};

Step read_call(Reading& r, const Opener&) {
  return read_tagged_call(r, kTags, "");
}

}  // namespace

const ToolFormat kMiniCpm = {
    .name = "minicpm5",
    .found_by = {{"<function name=\"", "<param name="}},
    .spelled = {"<function", "</function>", "<param", "</param>"},
    .openers = {{"<function name=\"", read_call}},
    .shape = {.call = "<function name=\"$name\">$parameters</function>",
              .between = "\n",
              .trigger = "<function name=\"",
              .parameter = "<param name=\"$key\">$value</param>"},
};

}  // namespace penstock::formats
