// <atem:function_calls><atem:invoke name="f"><atem:parameter name="k">v</atem:parameter></atem:invoke>
// </atem:function_calls>, in messages: <|start|>assistant to=self<|message|>reasoning<|eom|>
// <|start|>assistant to=f<|message|>call<|eom|>
#include "formats/list.h"
#include "formats/messages.h"
#include "formats/tagged_call.h"

namespace penstock::formats {
namespace {

constexpr Tags kTags = {
    .call = "<atem:invoke name=\"",
    .name_end = "\"",
    .call_head_end = ">",
    .parameter = "<atem:parameter name=\"",
    .key_end = "\"",
    .attributes_end = ">",
    .value_end = "</atem:parameter>",
    .call_end = "</atem:invoke>",
};

Step read_block(Reading& r, const Opener& opener) {
  return read_tagged_block(r, kTags, opener.closer);
}

}  // namespace

const MessageShape kMuseMessages = {
    .starts = {"<|start|>"},
    .first_starts = {" to=", "to=", "<|message|>"},
    .body = "<|message|>",
    .ends = {"<|eom|>", "<|eot|>"},
    .thinks = "to=self",
    .recipient = {},
};

const ToolFormat kMuse = {
    .name = "muse",
    .found_by = {{"<atem:"}},
    .spelled = {"<atem:function_calls>", "</atem:function_calls>", "<|start|>", "<|message|>", "<|eom|>",
                "<|eot|>"},
    .openers = {{"<atem:function_calls>", read_block, "</atem:function_calls>"}},
    .messages = &kMuseMessages,
    .shape = {.call = "<atem:invoke name=\"$name\">\n$parameters</atem:invoke>\n",
              .before = "<atem:function_calls>\n",
              .after = "</atem:function_calls>",
              .trigger = "<atem:function_calls>",
              .parameter = "<atem:parameter name=\"$key\">$value</atem:parameter>\n"},
};

}  // namespace penstock::formats
