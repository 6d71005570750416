// gpt-oss:
// <|channel|>analysis<|message|>...<|end|><|start|>assistant<|channel|>final<|message|>...<|return|>, and
// calls as <|channel|>commentary to=functions.f <|constrain|>json<|message|>{...}<|call|>, also with the
// recipient before the channel.
#include "formats/list.h"
#include "formats/messages.h"

namespace penstock::formats {

const MessageShape kHarmonyMessages = {
    .starts = {"<|start|>", "<|channel|>"},
    .first_starts = {" to=", "to=", "<|constrain|>", "<|message|>"},
    .body = "<|message|>",
    .ends = {"<|end|>", "<|call|>", "<|return|>"},
    .thinks = "<|channel|>analysis",
    .recipient = "to=functions.",
};

const ToolFormat kHarmony = {
    .name = "harmony",
    .found_by = {{"<|channel|>", "<|message|>"}},
    .spelled = {"<|start|>", "<|channel|>", "<|constrain|>", "<|message|>", "<|end|>", "<|call|>",
                "<|return|>"},
    .openers = {},
    .messages = &kHarmonyMessages,
    .shape = {.call =
                  "<|channel|>commentary to=functions.$name <|constrain|>json<|message|>$arguments<|call|>",
              .between = "<|start|>assistant"},
};

}  // namespace penstock::formats
