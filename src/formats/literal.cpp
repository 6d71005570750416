#include "formats/literal.h"

#include <array>
#include <cstdint>

namespace penstock::formats {
namespace {

constexpr int kDepth = 64;

Step read_value(Input& in, JsonSink to, int depth);

void append_utf8(uint32_t code, std::string& out) {
  if (code >= 0xD800 && code < 0xE000) code = 0xFFFD;
  if (code < 0x80) {
    out += static_cast<char>(code);
  } else if (code < 0x800) {
    out += static_cast<char>(0xC0 | code >> 6);
    out += static_cast<char>(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    out += static_cast<char>(0xE0 | code >> 12);
    out += static_cast<char>(0x80 | (code >> 6 & 0x3F));
    out += static_cast<char>(0x80 | (code & 0x3F));
  } else {
    out += static_cast<char>(0xF0 | code >> 18);
    out += static_cast<char>(0x80 | (code >> 12 & 0x3F));
    out += static_cast<char>(0x80 | (code >> 6 & 0x3F));
    out += static_cast<char>(0x80 | (code & 0x3F));
  }
}

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

/// Behind \x, \u or \U: the character, or all of it as it stands where digits are missing.
Step read_code(Input& in, char letter, size_t digits, std::string& out) {
  std::string written;
  uint32_t code = 0;
  while (written.size() < digits) {
    if (!co_await in.more()) break;
    const int value = hex_value(in.peek());
    if (value < 0) break;
    code = code << 4 | static_cast<uint32_t>(value);
    written += in.take();
  }
  if (written.size() == digits && code < 0x110000) {
    append_utf8(code, out);
  } else {
    out += '\\';
    out += letter;
    out += written;
  }
  co_return true;
}

Step read_escape(Input& in, JsonSink to) {
  in.take();
  if (!co_await in.more()) co_return false;
  constexpr std::string_view kLetters = "abfnrtv0\\'\"\n", kMeant("\a\b\f\n\r\t\v\0\\'\"", 11);
  const char c = in.take();
  std::string out;
  const size_t at = kLetters.find(c);
  if (c == 'x' || c == 'u' || c == 'U') {
    const size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : 8;
    co_await read_code(in, c, digits, out);
  } else if (at == std::string_view::npos) {
    out = {'\\', c};
  } else if (at < kMeant.size()) {
    out = kMeant[at];
  }  // a line that goes on says nothing
  to.add(escaped(out));
  co_return true;
}

Step ends_string(Input& in, std::string_view quotes) {
  const size_t begin = in.position();
  if (!co_await in.accept(quotes)) co_return false;
  const size_t end = in.position();
  co_await skip_space(in);
  bool is_end = true;
  if (co_await in.more()) is_end = std::string_view(",)]}:").find(in.peek()) != std::string_view::npos;
  in.rewind(is_end ? end : begin);
  co_return is_end;
}

Step read_string(Input& in, JsonSink to) {
  const char quote = in.take();
  std::string quotes(1, quote);
  const std::string two(2, quote);
  if (co_await in.accept(two)) {
    quotes += two;
  }
  to.add("\"");
  for (;;) {
    const bool is_end = co_await ends_string(in, quotes);
    if (is_end) break;
    if (!co_await in.more()) co_return false;
    if (in.peek() == '\\') {
      const bool is_whole = co_await read_escape(in, to);
      if (!is_whole) co_return false;
      continue;
    }
    const char c = in.take();
    to.add(escaped({&c, 1}));
  }
  to.add("\"");
  co_return true;
}

/// A list, a tuple or a dict.
Step read_container(Input& in, JsonSink to, int depth) {
  const char open = in.take();
  const bool is_dict = open == '{';
  const std::string_view close = is_dict ? "}" : open == '[' ? "]" : ")";
  to.add(is_dict ? "{" : "[");
  for (bool is_first = true;; is_first = false) {
    co_await skip_space(in);
    if (co_await in.accept(close)) break;
    if (!is_first) {
      if (!co_await in.accept(",")) co_return false;
      co_await skip_space(in);
      if (co_await in.accept(close)) break;
      to.add(", ");
    }
    if (is_dict) {
      std::string key;
      const bool is_key = co_await read_value(in, JsonSink(key), depth - 1);
      if (!is_key) co_return false;
      to.add(key.starts_with('"') ? key : '"' + escaped(key) + '"');
      co_await skip_space(in);
      if (!co_await in.accept(":")) co_return false;
      to.add(": ");
      co_await skip_space(in);
    }
    const bool is_value = co_await read_value(in, to, depth - 1);
    if (!is_value) co_return false;
  }
  to.add(is_dict ? "}" : "]");
  co_return true;
}

Step read_value(Input& in, JsonSink to, int depth) {
  if (depth == 0) co_return false;
  if (!co_await in.more()) co_return false;
  const char c = in.peek();
  if (c == '"' || c == '\'') co_return co_await read_string(in, to);
  if (c == '{' || c == '[' || c == '(') co_return co_await read_container(in, to, depth);
  co_return co_await read_json(in, to);  // a number or a word
}

/// The output of a step that gets all of `text` at once and must use it up.
template <class Read>
std::optional<std::string> read_whole(std::string_view text, Read read) {
  Input in;
  in.push(text);
  in.finish();
  std::string json;
  Step step = read(in, JsonSink(json));
  step.start();
  if (!step.result() || in.has_byte()) return std::nullopt;
  return json;
}

}  // namespace

Step read_literal(Input& in, JsonSink to) {
  return read_value(in, to, kDepth);
}

std::optional<std::string> json_of_literal(std::string_view text) {
  if (std::optional<std::string> json = read_whole(text, read_json)) return json;
  return read_whole(text, read_literal);
}

}  // namespace penstock::formats
