#include "formats/json_call.h"

#include <string>
#include <utility>

#include "base/json.h"
#include "formats/call_block.h"
#include "formats/json_value.h"

namespace penstock::formats {
namespace {

/// What is known of a call while its object is read.
struct Found {
  std::string name, id;
  std::string early;  // arguments that came before the name
  bool has_arguments = false;
};

/// JSON text of arguments that are no object to be passed on as it comes; empty if they are none.
std::string whole_arguments(const std::string& json) {
  base::Json value = base::Json::parse(json, nullptr, false);
  if (value.is_string()) {
    const std::string inner = value.get<std::string>();
    if (inner.empty()) return "{}";
    value = base::Json::parse(inner, nullptr, false);
    return value.is_object() ? inner : value.is_null() ? "{}" : "";
  }
  return value.is_object() ? json : value.is_null() ? "{}" : "";
}

/// Begins the call, once its arguments are sure to be some, and passes them on.
Step read_arguments(Reading& r, const std::string& name, const std::string& id) {
  co_await skip_space(r.in);
  if (!co_await r.in.more()) co_return false;
  if (r.in.peek() == '{') {
    r.out.begin_call(name, id);
    co_return co_await read_json(r.in, JsonSink(r.out));
  }
  std::string json;
  const bool is_json = co_await read_json(r.in, JsonSink(json));
  if (!is_json) co_return false;
  json = whole_arguments(json);
  if (json.empty()) co_return false;
  r.out.begin_call(name, id);
  r.out.arguments(json);
  co_return true;
}

Step read_member(Reading& r, OtherMembers others, Found& found) {
  std::string key;
  if (!co_await r.in.more()) co_return false;
  if (r.in.peek() != '"') co_return false;
  const bool is_key = co_await read_plain_string(r.in, key);
  if (!is_key) co_return false;
  co_await skip_space(r.in);
  if (!co_await r.in.accept(":")) co_return false;
  co_await skip_space(r.in);
  if (!co_await r.in.more()) co_return false;
  if ((key == "name" || key == "tool_name" || key == "function") && r.in.peek() == '"' &&
      found.name.empty()) {
    const bool is_string = co_await read_plain_string(r.in, found.name);
    co_return is_string&& r.tools.has(found.name);
  }
  if ((key == "arguments" || key == "parameters") && !found.has_arguments) {
    found.has_arguments = true;
    if (found.name.empty()) co_return co_await read_json(r.in, JsonSink(found.early));
    co_return co_await read_arguments(r, found.name, found.id);
  }
  const bool is_id = key == "id" || key == "tool_call_id";
  if (!is_id && key != "type" && others == OtherMembers::kNone) co_return false;
  std::string value;
  const bool is_value = co_await read_json(r.in, JsonSink(value));
  if (!is_value) co_return false;
  if (is_id) {
    const base::Json id = base::Json::parse(value, nullptr, false);
    found.id = id.is_string() ? id.get<std::string>() : value;
  }
  co_return true;
}

}  // namespace

Step read_json_call(Reading& r, OtherMembers others) {
  Found found;
  const size_t calls = r.out.calls();
  if (!co_await r.in.accept("{")) co_return false;
  co_await skip_space(r.in);
  for (;;) {
    const bool is_end = co_await r.in.accept("}");
    if (is_end) break;
    const bool is_member = co_await read_member(r, others, found);
    if (!is_member) co_return false;
    co_await skip_space(r.in);
    const bool has_comma = co_await r.in.accept(",");
    co_await skip_space(r.in);
    if (!co_await r.in.more()) co_return false;
    if (!has_comma && r.in.peek() != '}') co_return false;
  }
  if (found.name.empty()) co_return false;
  if (r.out.calls() == calls) {
    const std::string arguments = found.has_arguments ? whole_arguments(found.early) : "{}";
    if (arguments.empty()) co_return false;
    r.out.begin_call(found.name, found.id);
    r.out.arguments(arguments);
  }
  r.out.end_call();
  co_return true;
}

Step read_json_calls(Reading& r, OtherMembers others) {
  co_await skip_space(r.in);
  if (!co_await r.in.accept("[")) co_return co_await read_json_call(r, others);
  co_return co_await read_call_list(r,
                                    [others](Reading& reading) { return read_json_call(reading, others); });
}

Step read_json_arguments(Reading& r, std::string_view name, std::string_view id) {
  if (!r.tools.has(name)) co_return false;
  const std::string own_name(name), own_id(id);
  const bool are_read = co_await read_arguments(r, own_name, own_id);
  if (are_read) r.out.end_call();
  co_return are_read;
}

Step read_json_block(Reading& r, const Opener& opener) {
  do {
    const bool are_calls = co_await read_json_calls(r, OtherMembers::kPassedOver);
    if (!are_calls) co_return false;
    co_await skip_space(r.in);
    if (co_await r.in.accept(opener.closer)) co_return true;
    if (!co_await r.in.more()) co_return true;
  } while (r.in.peek() == '{' || r.in.peek() == '[');
  co_return true;
}

Step read_bare_json(Reading& r, const Opener& opener) {
  r.in.rewind(r.in.position() - opener.marker.size());
  const bool are_calls = co_await read_json_calls(r, OtherMembers::kNone);
  if (!are_calls) co_return false;
  co_await skip_space(r.in);
  co_await r.in.accept(";");
  co_return true;
}

}  // namespace penstock::formats
