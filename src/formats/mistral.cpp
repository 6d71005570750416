// [TOOL_CALLS] [{"name": "f", "arguments": {...}, "id": "123456789"}]
// [TOOL_CALLS]f[ARGS]{...}, [TOOL_CALLS]f[CALL_ID]123456789[ARGS]{...}, [TOOL_CALLS]f{...}
#include "formats/json_call.h"
#include "formats/json_value.h"
#include "formats/list.h"

namespace penstock::formats {
namespace {

constexpr size_t kIdBytes = 256;

Step read(Reading& r, const Opener& opener) {
  co_await skip_space(r.in);
  if (!co_await r.in.more()) co_return false;
  if (r.in.peek() == '[' || r.in.peek() == '{') co_return co_await read_json_block(r, opener);
  std::string name, id;
  const bool is_name = co_await read_name(r.in, "_-.", name);
  if (!is_name) co_return false;
  if (co_await r.in.accept("[CALL_ID]")) {
    const bool is_id = co_await read_until(r.in, "[ARGS]", kIdBytes, id);
    if (!is_id) co_return false;
  } else {
    co_await r.in.accept("[ARGS]");
  }
  co_return co_await read_json_arguments(r, name, id);
}

}  // namespace

const ToolFormat kMistral = {
    .name = "mistral",
    .found_by = {{"[TOOL_CALLS]", "[ARGS]"}},
    .spelled = {"[TOOL_CALLS]", "[ARGS]", "[CALL_ID]"},
    .openers = {{"[TOOL_CALLS]", read}},
    .shape = {.call = "[TOOL_CALLS]$name[ARGS]$arguments", .trigger = "[TOOL_CALLS]"},
};

const ToolFormat kMistralOld = {
    .name = "mistral_v3",
    .found_by = {{"[TOOL_CALLS]"}},
    .spelled = kMistral.spelled,
    .openers = kMistral.openers,
    .shape = {.call = "{\"name\": \"$name\", \"arguments\": $arguments}",
              .before = "[TOOL_CALLS] [",
              .between = ", ",
              .after = "]",
              .trigger = "[TOOL_CALLS]"},
};

}  // namespace penstock::formats
