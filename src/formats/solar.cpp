// <|tool_calls|><|tool_call:begin|>id<|tool_call:name|>f<|tool_call:args|>{...}<|tool_call:end|>
#include "formats/call_block.h"
#include "formats/json_call.h"
#include "formats/json_value.h"
#include "formats/list.h"

namespace penstock::formats {
namespace {

constexpr size_t kNameBytes = 256;
constexpr std::string_view kBlock = "<|tool_calls|>", kBlockEnd = "<|calls|>";
constexpr std::string_view kCall = "<|tool_call:begin|>", kName = "<|tool_call:name|>";
constexpr std::string_view kArguments = "<|tool_call:args|>", kCallEnd = "<|tool_call:end|>";

Step read_call(Reading& r) {
  std::string id, name;
  bool is_head = co_await read_until(r.in, kName, kNameBytes, id);
  if (!is_head) co_return false;
  is_head = co_await read_until(r.in, kArguments, kNameBytes, name);
  if (!is_head) co_return false;
  const bool is_call = co_await read_json_arguments(r, name, id);
  if (!is_call) co_return false;
  co_await skip_space(r.in);
  co_await r.in.accept(kCallEnd);
  co_return true;
}

Step read_block(Reading& r, const Opener&) {
  return read_call_block(r, kCall, kBlockEnd, read_call);
}

}  // namespace

const ToolFormat kSolar = {
    .name = "solar",
    .found_by = {{kArguments}},
    .spelled = {kBlock, kBlockEnd, kCall, kName, kArguments, kCallEnd},
    .openers = {{kBlock, read_block}},
    .shape =
        {.call =
             "<|tool_call:begin|>$number<|tool_call:name|>$name<|tool_call:args|>$arguments<|tool_call:end|>",
         .before = kBlock,
         .after = kBlockEnd,
         .trigger = kBlock},
};

}  // namespace penstock::formats
