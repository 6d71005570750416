// <|tool_calls_section_begin|><|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{...}<|tool_call_end|>
// <|tool_calls_section_end|>. The id is what stands before the arguments.
#include "formats/call_block.h"
#include "formats/json_call.h"
#include "formats/json_value.h"
#include "formats/list.h"

namespace penstock::formats {
namespace {

constexpr size_t kIdBytes = 256;
constexpr std::string_view kBlock = "<|tool_calls_section_begin|>", kBlockEnd = "<|tool_calls_section_end|>";
constexpr std::string_view kCall = "<|tool_call_begin|>", kCallEnd = "<|tool_call_end|>";
constexpr std::string_view kArguments = "<|tool_call_argument_begin|>";

Step read_call(Reading& r) {
  std::string id;
  const bool is_id = co_await read_until(r.in, kArguments, kIdBytes, id);
  if (!is_id) co_return false;
  while (!id.empty() && is_space(id.back())) id.pop_back();
  while (!id.empty() && is_space(id.front())) id.erase(0, 1);
  std::string name = id.substr(0, id.rfind(':'));
  if (name.starts_with("functions.")) name.erase(0, std::string_view("functions.").size());
  const bool is_call = co_await read_json_arguments(r, name, id);
  if (!is_call) co_return false;
  co_await skip_space(r.in);
  co_await r.in.accept(kCallEnd);
  co_return true;
}

Step read_block(Reading& r, const Opener& opener) {
  if (opener.marker == kCall) r.in.rewind(r.in.position() - kCall.size());
  return read_call_block(r, kCall, kBlockEnd, read_call);
}

}  // namespace

const ToolFormat kKimi = {
    .name = "kimi_k2",
    .found_by = {{kArguments}},
    .spelled = {kBlock, kBlockEnd, kCall, kCallEnd, kArguments},
    .openers = {{kBlock, read_block}, {kCall, read_block}},
    .shape = {.call = "<|tool_call_begin|>functions.$name:$number<|tool_call_argument_begin|>$arguments<|"
                      "tool_call_end|>",
              .before = kBlock,
              .after = kBlockEnd,
              .trigger = kBlock},
};

}  // namespace penstock::formats
