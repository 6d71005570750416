#include "formats/json_value.h"

#include <array>
#include <cstdio>
#include <utility>

#include "base/json.h"

namespace penstock::formats {
namespace {

constexpr size_t kDepth = 128;         // as base::parse_json
constexpr size_t kNumberBytes = 1024;  // longer ones are none
constexpr size_t kNameBytes = 256;

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

bool is_hex(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

/// Behind "\\u": up to four digits; true if there are four.
Step read_hex(Input& in, std::string& digits) {
  while (digits.size() < 4) {
    const bool has_byte = co_await in.more();
    if (!has_byte) break;
    if (!is_hex(in.peek())) break;
    digits += in.take();
  }
  co_return digits.size() == 4;
}

bool is_between(const std::string& digits, unsigned long first, unsigned long last) {
  const unsigned long code = std::stoul(digits, nullptr, 16);
  return code >= first && code <= last;
}

/// Behind "\\u". Half of a surrogate pair alone is no character.
Step read_unicode_escape(Input& in, JsonSink to) {
  std::string digits, low;
  const bool is_code = co_await read_hex(in, digits);
  if (!is_code) {
    to.add("\\\\u" + digits);
    co_return true;
  }
  if (!is_between(digits, 0xD800, 0xDFFF)) {
    to.add("\\u" + digits);
    co_return true;
  }
  const size_t begin = in.position();
  bool is_pair = false;
  if (is_between(digits, 0xD800, 0xDBFF)) is_pair = co_await in.accept("\\u");
  if (is_pair) is_pair = co_await read_hex(in, low);
  if (is_pair) is_pair = is_between(low, 0xDC00, 0xDFFF);
  if (!is_pair) in.rewind(begin);
  to.add(is_pair ? "\\u" + digits + "\\u" + low : "\\ufffd");
  co_return true;
}

Step read_escape(Input& in, JsonSink to) {
  in.take();
  if (!co_await in.more()) co_return false;
  const char c = in.peek();
  if (c == 'u') {
    in.take();
    co_return co_await read_unicode_escape(in, to);
  }
  if (std::string_view("\"\\/bfnrt").find(c) == std::string_view::npos) {
    to.add("\\\\");  // a backslash that escapes nothing stands for itself
  } else {
    const char escape[] = {'\\', in.take()};
    to.add({escape, 2});
  }
  co_return true;
}

Step read_number(Input& in, JsonSink to) {
  std::string number;
  for (;;) {
    const bool has_byte = co_await in.more();
    if (!has_byte) break;
    const char c = in.peek();
    if (!is_digit(c) && std::string_view("+-.eE").find(c) == std::string_view::npos) break;
    number += in.take();
    if (number.size() > kNumberBytes) co_return false;
  }
  if (!is_json_number(number)) co_return false;
  to.add(number);
  co_return true;
}

Step read_word(Input& in, JsonSink to) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 6> kWords = {{{"true", "true"},
                                                                                    {"false", "false"},
                                                                                    {"null", "null"},
                                                                                    {"True", "true"},
                                                                                    {"False", "false"},
                                                                                    {"None", "null"}}};
  std::string word;
  const bool is_name = co_await read_name(in, "", word);
  if (!is_name) co_return false;
  for (const auto& [written, json] : kWords) {
    if (word != written) continue;
    to.add(json);
    co_return true;
  }
  co_return false;
}

Step read_scalar(Input& in, JsonSink to) {
  const char c = in.peek();
  if (c == '"') co_return co_await read_json_string(in, to);
  if (c == '-' || is_digit(c)) co_return co_await read_number(in, to);
  co_return co_await read_word(in, to);
}

Step pass_space(Input& in, JsonSink to) {
  for (;;) {
    const bool has_byte = co_await in.more();
    if (!has_byte) break;
    if (!is_space(in.peek())) break;
    const char c = in.take();
    to.add({&c, 1});
  }
  co_return true;
}

Step read_key(Input& in, JsonSink to) {
  if (!co_await in.more()) co_return false;
  if (in.peek() != '"') co_return false;
  const bool is_string = co_await read_json_string(in, to);
  if (!is_string) co_return false;
  co_await pass_space(in, to);
  if (!co_await in.accept(":")) co_return false;
  to.add(":");
  co_return true;
}

}  // namespace

Step read_json_string(Input& in, JsonSink to) {
  in.take();
  to.add("\"");
  for (;;) {
    const bool has_byte = co_await in.more();
    if (!has_byte) break;
    const char c = in.peek();
    if (c == '\\') {
      const bool is_whole = co_await read_escape(in, to);
      if (!is_whole) co_return false;
      continue;
    }
    in.take();
    if (static_cast<unsigned char>(c) < 0x20) {
      to.add(escaped({&c, 1}));
    } else {
      to.add({&c, 1});
    }
    if (c == '"') co_return true;
  }
  co_return false;
}

Step read_plain_string(Input& in, std::string& out) {
  std::string json;
  const bool is_string = co_await read_json_string(in, JsonSink(json));
  if (!is_string) co_return false;
  const base::Json value = base::Json::parse(json, nullptr, false);
  if (!value.is_string()) co_return false;
  out = value.get<std::string>();
  co_return true;
}

Step read_json(Input& in, JsonSink to) {
  std::string open;  // the brackets that are
  co_await skip_space(in);
  for (;;) {
    if (!co_await in.more()) co_return false;
    const char c = in.peek();
    bool is_empty = false;
    if (c == '{' || c == '[') {
      if (open.size() == kDepth) co_return false;
      open += in.take();
      to.add({&c, 1});
      co_await pass_space(in, to);
      if (!co_await in.more()) co_return false;
      is_empty = in.peek() == (c == '{' ? '}' : ']');
    } else {
      const bool is_scalar = co_await read_scalar(in, to);
      if (!is_scalar) co_return false;
      if (open.empty()) co_return true;
    }
    bool is_next = (c == '{' || c == '[') && !is_empty;  // a value comes, not a comma or the end
    while (!is_next) {
      co_await pass_space(in, to);
      if (!co_await in.more()) co_return false;
      const char end = open.back() == '{' ? '}' : ']';
      const bool has_comma = co_await in.accept(",");
      if (has_comma) {
        co_await skip_space(in);
        if (!co_await in.more()) co_return false;
        is_next = in.peek() != end;
        if (is_next) to.add(", ");
        continue;
      }
      if (in.peek() != end) co_return false;
      in.take();
      to.add({&end, 1});
      open.pop_back();
      if (open.empty()) co_return true;
    }
    if (open.back() == '{') {
      const bool is_key = co_await read_key(in, to);
      if (!is_key) co_return false;
      co_await pass_space(in, to);
    }
  }
}

Step read_name(Input& in, std::string_view also, std::string& out) {
  for (;;) {
    const bool has_byte = co_await in.more();
    if (!has_byte) break;
    const char c = in.peek();
    if (!is_letter(c) && !is_digit(c) && also.find(c) == std::string_view::npos) break;
    if (out.size() == kNameBytes) co_return false;
    out += in.take();
  }
  co_return !out.empty();
}

bool is_json_number(std::string_view text) {
  size_t at = 0;
  const auto digits = [&] {
    const size_t begin = at;
    while (at < text.size() && is_digit(text[at])) ++at;
    return at > begin;
  };
  if (at < text.size() && text[at] == '-') ++at;
  const size_t whole = at;
  if (!digits() || (text[whole] == '0' && at - whole > 1)) return false;
  if (at < text.size() && text[at] == '.') {
    ++at;
    if (!digits()) return false;
  }
  if (at < text.size() && (text[at] == 'e' || text[at] == 'E')) {
    ++at;
    if (at < text.size() && (text[at] == '+' || text[at] == '-')) ++at;
    if (!digits()) return false;
  }
  return at == text.size();
}

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\r':
        out += "\\r";
        break;
      case '\t':
        out += "\\t";
        break;
      default:
        if (static_cast<unsigned char>(c) < 0x20) {
          char code[8];
          std::snprintf(code, sizeof code, "\\u%04x", static_cast<unsigned>(c));
          out += code;
        } else {
          out += c;
        }
    }
  }
  return out;
}

}  // namespace penstock::formats
