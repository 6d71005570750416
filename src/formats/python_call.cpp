#include "formats/python_call.h"

#include <string>

#include "formats/argument_writer.h"
#include "formats/json_value.h"
#include "formats/literal.h"

namespace penstock::formats {

Step read_python_call(Reading& r, std::string_view suffix) {
  std::string name;
  const bool is_name = co_await read_name(r.in, "_-.", name);
  if (!is_name) co_return false;
  if (name.ends_with(suffix)) name.resize(name.size() - suffix.size());
  if (!r.tools.has(name)) co_return false;
  if (!co_await r.in.accept("(")) co_return false;
  ArgumentWriter arguments(r);
  for (bool is_first = true;; is_first = false) {
    co_await skip_space(r.in);
    if (co_await r.in.accept(")")) break;
    if (!is_first) {
      if (!co_await r.in.accept(",")) co_return false;
      co_await skip_space(r.in);
      if (co_await r.in.accept(")")) break;
    }
    std::string key;
    const bool is_key = co_await read_name(r.in, "_-", key);
    if (!is_key) co_return false;
    co_await skip_space(r.in);
    if (!co_await r.in.accept("=")) co_return false;
    co_await skip_space(r.in);
    if (is_first) r.out.begin_call(name, "");
    arguments.key(key);
    const bool is_value = co_await read_literal(r.in, JsonSink(r.out));
    if (!is_value) co_return false;
  }
  if (!arguments.is_open()) r.out.begin_call(name, "");
  arguments.end();
  co_return true;
}

}  // namespace penstock::formats
