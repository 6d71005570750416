// Calls as plain text, for models without a format of their own that imitate a rewritten history:
// [Calling tool: f({...})] and [Calling tool="f" k="v"].
#include "formats/argument_writer.h"
#include "formats/json_call.h"
#include "formats/json_value.h"
#include "formats/list.h"
#include "formats/value_kinds.h"

namespace penstock::formats {
namespace {

constexpr size_t kNameBytes = 256;

Step read_json_form(Reading& r, const Opener& opener) {
  co_await skip_space(r.in);
  std::string name;
  const bool is_name = co_await read_until(r.in, "(", kNameBytes, name);
  if (!is_name) co_return false;
  if (!r.tools.has(name)) co_return false;
  co_await skip_space(r.in);
  bool is_call = false;
  if (co_await r.in.more()) is_call = r.in.peek() == ')';
  if (is_call) {
    r.out.begin_call(name, "");
    r.out.arguments("{}");
    r.out.end_call();
  } else {
    is_call = co_await read_json_arguments(r, name, "");
  }
  if (!is_call) co_return false;
  co_await skip_space(r.in);
  co_await r.in.accept(")");
  co_await skip_space(r.in);
  co_await r.in.accept(opener.closer);
  co_return true;
}

/// Whether the quote at the cursor ends a value: the next attribute or the end of the call follows.
Step ends_value(Input& in) {
  const size_t begin = in.position();
  if (!co_await in.accept("\"")) co_return false;
  const size_t end = in.position();
  bool is_end = true;
  if (co_await in.more()) is_end = in.peek() == ']' || is_space(in.peek());
  if (is_end && in.has_byte()) {
    if (is_space(in.peek())) {
      std::string key;
      co_await skip_space(in);
      is_end = co_await read_name(in, "_-.", key);
      if (is_end) is_end = co_await in.accept("=\"");
    }
  }
  in.rewind(is_end ? end : begin);
  co_return is_end;
}

Step read_attribute_form(Reading& r, const Opener& opener) {
  std::string name;
  const bool is_name = co_await read_until(r.in, "\"", kNameBytes, name);
  if (!is_name) co_return false;
  if (!r.tools.has(name)) co_return false;
  ArgumentWriter arguments(r);
  r.out.begin_call(name, "");
  for (;;) {
    co_await skip_space(r.in);
    if (co_await r.in.accept(opener.closer)) break;
    std::string key, text;
    const bool is_key = co_await read_name(r.in, "_-.", key);
    if (!is_key) co_return false;
    if (!co_await r.in.accept("=\"")) co_return false;
    arguments.key(key);
    for (;;) {
      const bool is_end = co_await ends_value(r.in);
      if (is_end) break;
      if (!co_await r.in.more()) co_return false;
      text += r.in.take();
    }
    r.out.arguments(json_of_text(text, kinds_of(r.tools.parameters(name), key)));
  }
  arguments.end();
  co_return true;
}

}  // namespace

const ToolFormat kText = {
    .name = "text",
    .found_by = {{"[Calling tool"}},
    .spelled = {},
    .openers = {{"[Calling tool: ", read_json_form, "]"}, {"[Calling tool=\"", read_attribute_form, "]"}},
    .shape = {.call = "[Calling tool: $name($arguments)]", .between = "\n", .trigger = "[Calling tool: "},
};

}  // namespace penstock::formats
