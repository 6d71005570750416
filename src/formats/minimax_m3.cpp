// MiniMax M3, in whose tags every < stands behind ]<]minimax[>[ (left out here):
// <tool_call>
// <invoke name="f"><k>v</k><list><item>1</item></list><object><key>x</key></object></invoke>
// </tool_call>
#include <string>

#include "formats/argument_writer.h"
#include "formats/call_block.h"
#include "formats/json_value.h"
#include "formats/list.h"
#include "formats/value_kinds.h"

namespace penstock::formats {
namespace {

constexpr int kDepth = 64;
constexpr size_t kNameBytes = 256;
constexpr std::string_view kMark = "]<]minimax[>[";
constexpr std::string_view kBlock = "]<]minimax[>[<tool_call>", kBlockEnd = "]<]minimax[>[</tool_call>";
constexpr std::string_view kCall = "]<]minimax[>[<invoke name=\"", kCallEnd = "]<]minimax[>[</invoke>";

/// A value from behind its opening tag to behind the closing one: text, items or members.
Step read_value(Reading& r, JsonSink to, std::string_view name, Kinds kinds, int depth) {
  Input& in = r.in;
  const std::string close = std::string(kMark) + "</" + std::string(name) + ">";
  const std::string item = std::string(kMark) + "<item>", member = std::string(kMark) + "<";
  bool is_list = co_await in.accept(item);
  bool is_object = false;
  if (!is_list && (kinds.has(Kinds::kObject) || kinds.has(Kinds::kArray))) {
    const size_t begin = in.position();
    if (!co_await in.accept(close)) is_object = co_await in.accept(member);
    if (!is_object) in.rewind(begin);
  }
  if (depth == 0 && (is_list || is_object)) co_return false;
  if (is_list) {
    to.add("[");
    for (bool is_first = true; is_list; is_first = false) {
      if (!is_first) to.add(", ");
      const bool is_read = co_await read_value(r, to, "item", Kinds::all(), depth - 1);
      if (!is_read) co_return false;
      is_list = co_await in.accept(item);
    }
    to.add("]");
    co_return co_await in.accept(close);
  }
  if (is_object) {
    to.add("{");
    for (bool is_first = true; is_object; is_first = false) {
      std::string key;
      const bool is_key = co_await read_until(in, ">", kNameBytes, key);
      if (!is_key) co_return false;
      to.add((is_first ? "\"" : ", \"") + escaped(key) + "\": ");
      const bool is_read = co_await read_value(r, to, key, Kinds::all(), depth - 1);
      if (!is_read) co_return false;
      if (co_await in.accept(close)) break;
      is_object = co_await in.accept(member);
      if (!is_object) co_return false;
    }
    to.add("}");
    co_return true;
  }
  std::string text;
  const bool is_text = kinds == Kinds::kString;
  if (is_text) to.add("\"");
  for (;;) {
    if (co_await in.accept(close)) break;
    if (!co_await in.more()) co_return false;
    const char c = in.take();
    if (is_text) {
      to.add(escaped({&c, 1}));
    } else {
      text += c;
    }
  }
  if (is_text) {
    to.add("\"");
  } else if (text.empty() && !kinds.has(Kinds::kString)) {
    to.add(kinds.has(Kinds::kArray) ? "[]" : kinds.has(Kinds::kObject) ? "{}" : "null");
  } else {
    to.add(json_of_text(text, kinds));
  }
  co_return true;
}

Step read_call(Reading& r) {
  std::string name;
  const bool is_name = co_await read_until(r.in, "\">", kNameBytes, name);
  if (!is_name || !r.tools.has(name)) co_return false;
  co_await skip_space(r.in);
  const size_t begin = r.in.position();
  if (!co_await r.in.accept(kMark)) co_return false;
  r.in.rewind(begin);
  r.out.begin_call(name, "");
  ArgumentWriter arguments(r);
  for (;;) {
    co_await skip_space(r.in);
    if (co_await r.in.accept(kCallEnd)) break;
    if (!co_await r.in.accept(kMark)) co_return false;
    if (!co_await r.in.accept("<")) co_return false;
    std::string key;
    const bool is_key = co_await read_until(r.in, ">", kNameBytes, key);
    if (!is_key) co_return false;
    arguments.key(key);
    const Kinds kinds = kinds_of(r.tools.parameters(name), key);
    const bool is_value = co_await read_value(r, JsonSink(r.out), key, kinds, kDepth);
    if (!is_value) co_return false;
  }
  arguments.end();
  co_return true;
}

Step read_block(Reading& r, const Opener&) {
  return read_call_block(r, kCall, kBlockEnd, read_call);
}

}  // namespace

const ToolFormat kMiniMaxM3 = {
    .name = "minimax_m3",
    .found_by = {{kMark}},
    .spelled = {kMark},
    .openers = {{kBlock, read_block}},
};

}  // namespace penstock::formats
