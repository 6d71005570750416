// DeepSeek V3.2 and V4 (| stands for U+FF5C):
// <|DSML|function_calls>
// <|DSML|invoke name="f">
// <|DSML|parameter name="k" string="true">v</|DSML|parameter>
// </|DSML|invoke>
// </|DSML|function_calls>
// V4 says tool_calls instead of function_calls. What is no string is JSON.
#include "formats/list.h"
#include "formats/tagged_call.h"

namespace penstock::formats {
namespace {

constexpr Tags kTags = {
    .call = "<\uFF5CDSML\uFF5Cinvoke name=\"",
    .name_end = "\"",
    .call_head_end = ">",
    .parameter = "<\uFF5CDSML\uFF5Cparameter name=\"",
    .key_end = "\"",
    .attributes_end = ">",
    .value_end = "</\uFF5CDSML\uFF5Cparameter>",
    .call_end = "</\uFF5CDSML\uFF5Cinvoke>",
};

Step read_block(Reading& r, const Opener& opener) {
  return read_tagged_block(r, kTags, opener.closer);
}

}  // namespace

const ToolFormat kDsml = {
    .name = "deepseek_v32",
    .found_by = {{"\uFF5CDSML\uFF5C"}},
    .spelled = {"\uFF5CDSML\uFF5C"},
    .openers = {{"<\uFF5CDSML\uFF5Cfunction_calls>", read_block, "</\uFF5CDSML\uFF5Cfunction_calls>"},
                {"<\uFF5CDSML\uFF5Ctool_calls>", read_block, "</\uFF5CDSML\uFF5Ctool_calls>"}},
    .shape = {.call = "<\uFF5CDSML\uFF5Cinvoke name=\"$name\">\n$parameters</\uFF5CDSML\uFF5Cinvoke>\n",
              .before = "<\uFF5CDSML\uFF5Cfunction_calls>\n",
              .after = "</\uFF5CDSML\uFF5Cfunction_calls>",
              .trigger = "<\uFF5CDSML\uFF5Cfunction_calls>",
              .parameter = "<\uFF5CDSML\uFF5Cparameter name=\"$key\" "
                           "string=\"$is_string\">$value</\uFF5CDSML\uFF5Cparameter>\n"},
};

}  // namespace penstock::formats
