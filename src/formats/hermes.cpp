// <tool_call>
// {"name": "f", "arguments": {...}}
// </tool_call>
#include "formats/json_call.h"
#include "formats/list.h"

namespace penstock::formats {
namespace {

bool is_in(std::string_view chat_template) {
  return chat_template.find("<tool_call>") != std::string_view::npos;
}

/// The end marker may be missing: the object says where the call ends.
Step read(Reading& r) {
  do {
    const bool are_calls = co_await read_json_calls(r, OtherMembers::kPassedOver);
    if (!are_calls) co_return false;
    co_await skip_space(r.in);
    if (co_await r.in.accept("</tool_call>")) co_return true;
    if (!co_await r.in.more()) co_return true;
  } while (r.in.peek() == '{');
  co_return true;
}

}  // namespace

const ToolFormat kHermes = {"hermes", is_in, {"<tool_call>", "</tool_call>"}, {{"<tool_call>", read}}};

}  // namespace penstock::formats
