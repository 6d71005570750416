// Functionary 3.2: >>>f
// {...}, and >>>all
// text. Functionary 2: <|from|>assistant
// <|recipient|>f
// <|content|>{...}. The prompt ends behind the first mark, so that an output begins with a recipient.
#include "formats/json_call.h"
#include "formats/json_value.h"
#include "formats/list.h"

namespace penstock::formats {
namespace {

/// Behind the mark: the recipient, and the call if it is a tool. Text follows it if it is all.
Step read_recipient(Reading& r) {
  std::string name;
  const bool is_name = co_await read_name(r.in, "_-.:", name);
  if (!is_name) co_return false;
  if (!co_await r.in.accept("\n")) co_return false;
  co_await r.in.accept("<|content|>");
  if (name == "all") co_return true;
  co_return co_await read_json_arguments(r, name, "");
}

Step read(Reading& r, const Opener&) {
  return read_recipient(r);
}

}  // namespace

const ToolFormat kFunctionary = {
    .name = "functionary",
    .found_by = {{">>>all"}},
    .spelled = {},
    .openers = {{">>>", read}},
    .read_begin = read_recipient,
    .shape = {.call = "$name\n$arguments", .between = ">>>"},
};

const ToolFormat kFunctionaryV2 = {
    .name = "functionary_v2",
    .found_by = {{"<|recipient|>"}},
    .spelled = {"<|from|>", "<|recipient|>", "<|content|>", "<|stop|>"},
    .openers = {{"<|from|>assistant\n<|recipient|>", read}, {"<|recipient|>", read}},
    .read_begin = read_recipient,
    .shape = {.call = "$name\n<|content|>$arguments", .between = "\n<|from|>assistant\n<|recipient|>"},
};

}  // namespace penstock::formats
