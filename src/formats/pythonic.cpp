// LFM2: <|tool_call_start|>[f(a="x", b=2), g()]<|tool_call_end|>; or JSON between these markers.
// Llama 4 and others: [f(a="x", b=2)] and nothing before it.
#include "formats/call_block.h"
#include "formats/json_call.h"
#include "formats/list.h"
#include "formats/python_call.h"

namespace penstock::formats {
namespace {

Step read_call(Reading& r) {
  return read_python_call(r, "");
}

Step read_lfm(Reading& r, const Opener& opener) {
  co_await skip_space(r.in);
  const size_t begin = r.in.position();
  const bool is_list = co_await r.in.accept("[");
  bool is_json = !is_list;
  if (is_list) {
    co_await skip_space(r.in);
    if (co_await r.in.more()) is_json = r.in.peek() == '{';
  }
  if (is_json) {
    r.in.rewind(begin);
    co_return co_await read_json_block(r, opener);
  }
  const bool are_calls = co_await read_call_list(r, read_call);
  if (!are_calls) co_return false;
  co_await skip_space(r.in);
  co_await r.in.accept(opener.closer);
  co_return true;
}

Step read_bare(Reading& r, const Opener&) {
  return read_call_list(r, read_call);
}

}  // namespace

const ToolFormat kLfm = {
    .name = "lfm2",
    .found_by = {{"<|tool_call_start|>"}, {"<|tool_list_start|>"}, {"List of tools: ["}},
    .spelled = {"<|tool_call_start|>", "<|tool_call_end|>"},
    .openers = {{"<|tool_call_start|>", read_lfm, "<|tool_call_end|>"}},
    .shape = {.call = "$name($parameters)",
              .before = "<|tool_call_start|>[",
              .between = ", ",
              .after = "]<|tool_call_end|>",
              .trigger = "<|tool_call_start|>",
              .parameter = "$key=$value",
              .separator = ", ",
              .has_json_strings = true},
};

const ToolFormat kPythonic = {
    .name = "pythonic",
    .found_by = {{"[func_name1(params_name1=params_value1"}},
    .spelled = {"<|python_start|>", "<|python_end|>"},
    .openers = {{"<|python_start|>", read_lfm, "<|python_end|>"}, {"[", read_bare, "", Where::kAnswerStart}},
    .shape = {.call = "$name($parameters)",
              .before = "[",
              .between = ", ",
              .after = "]",
              .parameter = "$key=$value",
              .separator = ", ",
              .has_json_strings = true},
};

}  // namespace penstock::formats
