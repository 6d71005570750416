// Gemma 4: <|tool_call>call:f{key:<|"|>text<|"|>,n:3,o:{x:[1,true]}}<tool_call|>; the outer markers may be
// missing. FunctionGemma: <start_function_call>call:f{key:<escape>text<escape>}<end_function_call>
#include <string>

#include "formats/argument_writer.h"
#include "formats/json_value.h"
#include "formats/list.h"
#include "formats/value_kinds.h"

namespace penstock::formats {
namespace {

constexpr int kDepth = 64;
constexpr std::string_view kCall = "call:";

/// The body of one call.
class Body {
 public:
  Body(Reading& r, std::string_view quote) : r_(r), in_(r.in), quote_(quote) {}

  /// Behind "call:".
  Step read() {
    std::string name;
    const bool is_name = co_await read_name(in_, "_-:.", name);
    if (!is_name || !r_.tools.has(name)) co_return false;
    if (!co_await in_.accept("{")) co_return false;
    r_.out.begin_call(name, "");
    ArgumentWriter arguments(r_);
    for (;;) {
      co_await skip_space(in_);
      if (co_await in_.accept("}")) break;
      if (arguments.is_open()) {
        if (!co_await in_.accept(",")) co_return false;
        co_await skip_space(in_);
      }
      std::string key;
      const bool is_key = co_await read_key(key);
      if (!is_key) co_return false;
      arguments.key(key);
      const bool is_value =
          co_await read_value(JsonSink(r_.out), kinds_of(r_.tools.parameters(name), key), kDepth);
      if (!is_value) co_return false;
    }
    arguments.end();
    co_return true;
  }

 private:
  /// A name and its colon.
  Step read_key(std::string& key) {
    if (co_await in_.accept(quote_)) {
      const bool is_quoted = co_await read_until(in_, quote_, 256, key);
      if (!is_quoted) co_return false;
    } else if (in_.rest().starts_with('"')) {
      const bool is_quoted = co_await read_plain_string(in_, key);
      if (!is_quoted) co_return false;
    } else {
      const bool is_name = co_await read_name(in_, "_-.$ ", key);
      if (!is_name) co_return false;
    }
    co_await skip_space(in_);
    const bool has_value = co_await in_.accept(":");
    co_await skip_space(in_);
    co_return has_value;
  }

  Step read_value(JsonSink to, Kinds kinds, int depth) {
    if (depth == 0) co_return false;
    if (!co_await in_.more()) co_return false;
    if (co_await in_.accept(quote_)) co_return co_await read_text(to);
    if (co_await in_.accept("{")) co_return co_await read_object(to, depth);
    if (co_await in_.accept("[")) co_return co_await read_array(to, depth);
    if (in_.peek() == '"') co_return co_await read_json_string(in_, to);
    std::string bare;
    for (;;) {
      const bool has_byte = co_await in_.more();
      if (!has_byte) break;
      const char c = in_.peek();
      if (c == ',' || c == '}' || c == ']') break;
      if (bare.size() == 4096) co_return false;
      bare += in_.take();
    }
    while (!bare.empty() && is_space(bare.back())) bare.pop_back();
    if (!in_.has_byte()) co_return false;
    to.add(json_of_text(bare, kinds));
    co_return true;
  }

  /// Behind the quote: up to the one that a value's end follows.
  Step read_text(JsonSink to) {
    to.add("\"");
    for (;;) {
      const size_t begin = in_.position();
      if (co_await in_.accept(quote_)) {
        const size_t end = in_.position();
        co_await skip_space(in_);
        bool is_end = true;
        if (co_await in_.more()) is_end = std::string_view(",}]").find(in_.peek()) != std::string_view::npos;
        in_.rewind(is_end ? end : begin);
        if (is_end) break;
      }
      if (!co_await in_.more()) co_return false;
      const char c = in_.take();
      to.add(escaped({&c, 1}));
    }
    to.add("\"");
    co_return true;
  }

  Step read_object(JsonSink to, int depth) {
    to.add("{");
    for (bool is_first = true;; is_first = false) {
      co_await skip_space(in_);
      if (co_await in_.accept("}")) break;
      if (!is_first) {
        if (!co_await in_.accept(",")) co_return false;
        co_await skip_space(in_);
        to.add(", ");
      }
      std::string key;
      const bool is_key = co_await read_key(key);
      if (!is_key) co_return false;
      to.add("\"" + escaped(key) + "\": ");
      const bool is_value = co_await read_value(to, Kinds::all(), depth - 1);
      if (!is_value) co_return false;
    }
    to.add("}");
    co_return true;
  }

  Step read_array(JsonSink to, int depth) {
    to.add("[");
    for (bool is_first = true;; is_first = false) {
      co_await skip_space(in_);
      if (co_await in_.accept("]")) break;
      if (!is_first) {
        if (!co_await in_.accept(",")) co_return false;
        co_await skip_space(in_);
        to.add(", ");
      }
      const bool is_value = co_await read_value(to, Kinds::all(), depth - 1);
      if (!is_value) co_return false;
    }
    to.add("]");
    co_return true;
  }

  Reading& r_;
  Input& in_;
  std::string_view quote_;
};

Step read_calls(Reading& r, const Opener& opener, std::string_view quote, std::string_view response) {
  if (opener.marker != kCall) {
    if (!co_await r.in.accept(kCall)) co_return false;
  }
  Body body(r, quote);
  const bool is_call = co_await body.read();
  if (!is_call) co_return false;
  co_await skip_space(r.in);
  co_await r.in.accept(opener.closer);
  co_await skip_space(r.in);
  if (!co_await r.in.accept(response)) co_return true;
  for (;;) {  // the model goes on with the tool's part
    const bool has_byte = co_await r.in.more();
    if (!has_byte) co_return true;
    r.in.take();
  }
}

Step read_gemma(Reading& r, const Opener& opener) {
  return read_calls(r, opener, "<|\"|>", "<|tool_response>");
}

Step read_function_gemma(Reading& r, const Opener& opener) {
  return read_calls(r, opener, "<escape>", "<start_function_response>");
}

}  // namespace

const ToolFormat kGemma = {
    .name = "gemma4",
    .found_by = {{"<|tool_call>"}},
    .spelled = {"<|tool_call>", "<tool_call|>", "<|\"|>", "<|tool_response>"},
    .openers = {{"<|tool_call>", read_gemma, "<tool_call|>"},
                {kCall, read_gemma, "<tool_call|>", Where::kLineStart}},
    .shape = {.call = "<|tool_call>call:$name$arguments<tool_call|>", .trigger = "<|tool_call>"},
};

const ToolFormat kFunctionGemma = {
    .name = "function_gemma",
    .found_by = {{"<start_function_call>"}},
    .spelled = {"<start_function_call>", "<end_function_call>", "<escape>", "<start_function_response>"},
    .openers = {{"<start_function_call>", read_function_gemma, "<end_function_call>"},
                {kCall, read_function_gemma, "<end_function_call>", Where::kLineStart}},
    .shape = {.call = "<start_function_call>call:$name$arguments<end_function_call>",
              .trigger = "<start_function_call>"},
};

}  // namespace penstock::formats
