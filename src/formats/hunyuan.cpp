// <tool_call:opensource>f<tool_sep:opensource>{...}<end_of_tool_call:opensource>, and
// <tool_calls:opensource>
// <tool_call:opensource>f<tool_sep:opensource>
// <arg_key:opensource>k</arg_key:opensource>
// <arg_value:opensource>v</arg_value:opensource>
// </tool_call:opensource>
// </tool_calls:opensource>. Vocabularies differ in what follows the colon.
#include "formats/call_block.h"
#include "formats/json_call.h"
#include "formats/json_value.h"
#include "formats/list.h"
#include "formats/tagged_call.h"

namespace penstock::formats {
namespace {

constexpr size_t kSuffixBytes = 32, kNameBytes = 256;
constexpr std::string_view kCall = "<tool_call:", kBlock = "<tool_calls:";

/// Behind kCall.
Step read_call(Reading& r) {
  std::string suffix, name;
  const bool is_tag = co_await read_until(r.in, ">", kSuffixBytes, suffix);
  if (!is_tag) co_return false;
  const std::string end = ":" + suffix + ">", separator = "<tool_sep" + end;
  const std::string other_end = "<end_of_tool_call" + end, call_end = "</tool_call" + end;
  const size_t begin = r.in.position();
  const bool is_name = co_await read_until(r.in, separator, kNameBytes, name);
  if (!is_name) co_return false;
  co_await skip_space(r.in);
  bool is_json = false;
  if (co_await r.in.more()) is_json = r.in.peek() == '{';
  if (is_json) {
    const bool is_call = co_await read_json_arguments(r, name, "");
    if (!is_call) co_return false;
    co_await skip_space(r.in);
    if (!co_await r.in.accept(other_end)) co_await r.in.accept(call_end);
    co_return true;
  }
  r.in.rewind(begin);
  const std::string key = "<arg_key" + end, key_end = "</arg_key" + end;
  const std::string value = "<arg_value" + end, value_end = "</arg_value" + end;
  const Tags tags = {.name_end = separator,
                     .parameter = key,
                     .key_end = key_end,
                     .value = value,
                     .value_end = value_end,
                     .call_end = call_end};
  co_return co_await read_tagged_call(r, tags, "");
}

Step read_one(Reading& r, const Opener&) {
  return read_call(r);
}

Step read_block(Reading& r, const Opener&) {
  std::string suffix;
  const bool is_tag = co_await read_until(r.in, ">", kSuffixBytes, suffix);
  if (!is_tag) co_return false;
  const std::string end = "</tool_calls:" + suffix + ">";
  co_return co_await read_call_block(r, kCall, end, read_call);
}

}  // namespace

const ToolFormat kHunyuan = {
    .name = "hy_v3",
    .found_by = {{"<tool_sep{}>"}, {"<tool_sep:"}},
    .spelled = {"<tool_calls:opensource>", "</tool_calls:opensource>", "<tool_call:opensource>",
                "</tool_call:opensource>", "<tool_sep:opensource>", "<end_of_tool_call:opensource>",
                "<arg_key:opensource>", "</arg_key:opensource>", "<arg_value:opensource>",
                "</arg_value:opensource>"},
    .openers = {{kBlock, read_block}, {kCall, read_one}},
    .shape = {.call = "<tool_call:opensource>$name<tool_sep:opensource>\n$parameters</tool_call:opensource>",
              .before = "<tool_calls:opensource>\n",
              .between = "\n",
              .after = "\n</tool_calls:opensource>",
              .trigger = "<tool_calls:opensource>",
              .parameter = "<arg_key:opensource>$key</arg_key:opensource>\n<arg_value:opensource>$value</"
                           "arg_value:opensource>\n"},
};

}  // namespace penstock::formats
