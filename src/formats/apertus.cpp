// <|tools_prefix|>[{"f": {...}}, {"g": {...}}]<|tools_suffix|>
#include "formats/call_block.h"
#include "formats/json_call.h"
#include "formats/json_value.h"
#include "formats/list.h"

namespace penstock::formats {
namespace {

/// {"f": {...}}
Step read_call(Reading& r) {
  std::string name;
  if (!co_await r.in.accept("{")) co_return false;
  co_await skip_space(r.in);
  if (!co_await r.in.more()) co_return false;
  if (r.in.peek() != '"') co_return false;
  const bool is_name = co_await read_plain_string(r.in, name);
  if (!is_name) co_return false;
  co_await skip_space(r.in);
  if (!co_await r.in.accept(":")) co_return false;
  const bool is_call = co_await read_json_arguments(r, name, "");
  if (!is_call) co_return false;
  co_await skip_space(r.in);
  co_return co_await r.in.accept("}");
}

Step read(Reading& r, const Opener& opener) {
  co_await skip_space(r.in);
  if (!co_await r.in.accept("[")) co_return false;
  const bool are_calls = co_await read_call_list(r, read_call);
  if (!are_calls) co_return false;
  co_await skip_space(r.in);
  co_await r.in.accept(opener.closer);
  co_return true;
}

}  // namespace

const ToolFormat kApertus = {
    .name = "apertus",
    .found_by = {{"<|tools_prefix|>"}},
    .spelled = {"<|tools_prefix|>", "<|tools_suffix|>"},
    .openers = {{"<|tools_prefix|>", read, "<|tools_suffix|>"}},
    .shape = {.call = "{\"$name\": $arguments}",
              .before = "<|tools_prefix|>[",
              .between = ", ",
              .after = "]<|tools_suffix|>",
              .trigger = "<|tools_prefix|>"},
};

}  // namespace penstock::formats
