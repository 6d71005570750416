#include "text/utf8.h"

#include <cstdint>

namespace penstock::text {
namespace {

struct Lead {
  size_t size;          // bytes of the character; 0 if no character starts so
  unsigned char lower;  // range of the second byte
  unsigned char upper;
};

// Table 3-7 of the Unicode standard: the second byte's range excludes overlong forms, surrogates and beyond
// U+10FFFF.
Lead lead_of(unsigned char byte) {
  if (byte < 0x80) return {1, 0, 0};
  if (byte >= 0xC2 && byte <= 0xDF) return {2, 0x80, 0xBF};
  if (byte == 0xE0) return {3, 0xA0, 0xBF};
  if (byte == 0xED) return {3, 0x80, 0x9F};
  if (byte >= 0xE1 && byte <= 0xEF) return {3, 0x80, 0xBF};
  if (byte == 0xF0) return {4, 0x90, 0xBF};
  if (byte >= 0xF1 && byte <= 0xF3) return {4, 0x80, 0xBF};
  if (byte == 0xF4) return {4, 0x80, 0x8F};
  return {0, 0, 0};
}

// How many of the bytes belong together: a whole character, or the start of one.
size_t matching(std::string_view bytes, const Lead& lead) {
  size_t count = 1;
  while (count < lead.size && count < bytes.size()) {
    const auto byte = static_cast<unsigned char>(bytes[count]);
    const unsigned char lower = count == 1 ? lead.lower : 0x80;
    const unsigned char upper = count == 1 ? lead.upper : 0xBF;
    if (byte < lower || byte > upper) break;
    ++count;
  }
  return count;
}

}  // namespace

size_t append_utf8(std::string_view bytes, std::string& out) {
  size_t at = 0;
  while (at < bytes.size()) {
    const std::string_view rest = bytes.substr(at);
    const Lead lead = lead_of(static_cast<unsigned char>(rest[0]));
    const size_t count = matching(rest, lead);
    if (lead.size == count) {
      out.append(rest.substr(0, count));
    } else if (lead.size > count && count == rest.size()) {
      return at;
    } else {
      out.append(kReplacement);
    }
    at += count;
  }
  return at;
}

}  // namespace penstock::text
