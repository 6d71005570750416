// Kimi K3, in whose tags ( stands for <|open|>, / for <|close|> and ) for <|sep|>:
// (tools)(call tool="f" index="1")(argument key="k" type="string")v/argument)/call)/tools)
#include "formats/list.h"
#include "formats/tagged_call.h"

namespace penstock::formats {
namespace {

constexpr Tags kTags = {
    .call = "<|open|>call tool=\"",
    .name_end = "\"",
    .call_head_end = "<|sep|>",
    .parameter = "<|open|>argument key=\"",
    .key_end = "\"",
    .attributes_end = "<|sep|>",
    .value_end = "<|close|>argument<|sep|>",
    .call_end = "<|close|>call<|sep|>",
};

Step read_block(Reading& r, const Opener& opener) {
  return read_tagged_block(r, kTags, opener.closer);
}

}  // namespace

const ToolFormat kKimiK3 = {
    .name = "kimi_k3",
    .found_by = {{"<|open|>", "<|sep|>"}},
    .spelled = {"<|open|>", "<|close|>", "<|sep|>"},
    .openers = {{"<|open|>tools<|sep|>", read_block, "<|close|>tools<|sep|>"}},
    .shape = {.call = "<|open|>call tool=\"$name\" index=\"$number\"<|sep|>$parameters<|close|>call<|sep|>",
              .before = "<|open|>tools<|sep|>",
              .after = "<|close|>tools<|sep|>",
              .trigger = "<|open|>tools<|sep|>",
              .parameter =
                  "<|open|>argument key=\"$key\" type=\"$type\"<|sep|>$value<|close|>argument<|sep|>"},
};

}  // namespace penstock::formats
