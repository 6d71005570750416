// DeepSeek V3 and R1 (in the markers, | stands for U+FF5C and _ for U+2581):
// <|tool_calls_begin|><|tool_call_begin|>function<|tool_sep|>f
// ```json
// {...}
// ```<|tool_call_end|><|tool_calls_end|>
// V3.1: <|tool_calls_begin|><|tool_call_begin|>f<|tool_sep|>{...}<|tool_call_end|><|tool_calls_end|>
// Both are read whichever of the two was chosen.
#include "formats/call_block.h"
#include "formats/json_call.h"
#include "formats/json_value.h"
#include "formats/list.h"

namespace penstock::formats {
namespace {

constexpr size_t kNameBytes = 256;
constexpr std::string_view kBlock = "<\uFF5Ctool\u2581calls\u2581begin\uFF5C>";
constexpr std::string_view kBlockEnd = "<\uFF5Ctool\u2581calls\u2581end\uFF5C>";
constexpr std::string_view kCall = "<\uFF5Ctool\u2581call\u2581begin\uFF5C>";
constexpr std::string_view kCallEnd = "<\uFF5Ctool\u2581call\u2581end\uFF5C>";
constexpr std::string_view kSeparator = "<\uFF5Ctool\u2581sep\uFF5C>";

/// Behind kCall.
Step read_call(Reading& r) {
  std::string name;
  const bool is_name = co_await read_until(r.in, kSeparator, kNameBytes, name);
  if (!is_name) co_return false;
  co_await skip_space(r.in);
  bool is_fenced = false;
  if (!co_await r.in.more()) co_return false;
  if (name == "function" && r.in.peek() != '{') {
    name.clear();
    const bool has_line = co_await read_until(r.in, "\n", kNameBytes, name);
    if (!has_line) co_return false;
    is_fenced = co_await r.in.accept("```json");
  }
  const bool is_call = co_await read_json_arguments(r, name, "");
  if (!is_call) co_return false;
  co_await skip_space(r.in);
  if (is_fenced) co_await r.in.accept("```");
  co_await skip_space(r.in);
  co_await r.in.accept(kCallEnd);
  co_return true;
}

Step read_block(Reading& r, const Opener& opener) {
  if (opener.marker == kCall) r.in.rewind(r.in.position() - kCall.size());
  return read_call_block(r, kCall, kBlockEnd, read_call);
}

const std::vector<std::string_view> kSpelled = {kBlock, kBlockEnd, kCall, kCallEnd, kSeparator};
const std::vector<Opener> kOpeners = {{kBlock, read_block}, {kCall, read_block}};

}  // namespace

const ToolFormat kDeepSeekV3 = {
    .name = "deepseek_v3",
    .found_by = {{kSeparator, "```json"}},
    .spelled = kSpelled,
    .openers = kOpeners,
    .shape = {.call = "<\uFF5Ctool\u2581call\u2581begin\uFF5C>function<\uFF5Ctool\u2581sep\uFF5C>$name\n```"
                      "json\n$arguments\n```<\uFF5Ctool\u2581call\u2581end\uFF5C>",
              .before = kBlock,
              .between = "\n",
              .after = kBlockEnd,
              .trigger = kBlock},
};

const ToolFormat kDeepSeekV31 = {
    .name = "deepseek_v31",
    .found_by = {{kSeparator}},
    .spelled = kSpelled,
    .openers = kOpeners,
    .shape = {.call = "<\uFF5Ctool\u2581call\u2581begin\uFF5C>$name<\uFF5Ctool\u2581sep\uFF5C>$arguments<"
                      "\uFF5Ctool\u2581call\u2581end\uFF5C>",
              .before = kBlock,
              .after = kBlockEnd,
              .trigger = kBlock},
};

}  // namespace penstock::formats
