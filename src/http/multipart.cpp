#include "http/multipart.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

#include "base/error.h"

namespace penstock::http {
namespace {

using base::Code;
using base::Error;

constexpr size_t kMaxParts = 64, kMaxHeadBytes = 8192, kMaxBoundaryBytes = 70;

Error malformed(const std::string& message) {
  return {Code::kInvalidRequest, "[http.multipart] expected a multipart/form-data body " + message};
}

std::string lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(), [](unsigned char c) { return std::tolower(c); });
  return out;
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

/// Browsers, and the SDKs after them, write these three characters of a name as escapes, and only these.
std::string unescaped(std::string text) {
  constexpr std::array<std::pair<std::string_view, char>, 3> kEscapes = {
      {{"%22", '"'}, {"%0D", '\r'}, {"%0A", '\n'}}};
  for (const auto& [escape, character] : kEscapes) {
    for (size_t at = 0; (at = text.find(escape, at)) != std::string::npos; ++at)
      text.replace(at, escape.size(), 1, character);
  }
  return text;
}

/// Takes `; name=value` from the front of a header's value; the value may be quoted. False at its end.
bool take_parameter(std::string_view& rest, std::string& name, std::string& value) {
  rest = trimmed(rest);
  if (rest.empty()) return false;
  if (rest.front() != ';') throw malformed("whose parameters stand behind semicolons; got another");
  rest = trimmed(rest.substr(1));
  const size_t equals = rest.find('=');
  if (equals == std::string_view::npos) throw malformed("whose parameters have values; got one without");
  name = lower(trimmed(rest.substr(0, equals)));
  rest = trimmed(rest.substr(equals + 1));
  value.clear();
  if (rest.empty() || rest.front() != '"') {
    const std::string_view token = trimmed(rest.substr(0, rest.find(';')));
    rest.remove_prefix(std::min(rest.find(';'), rest.size()));
    value = token;
    return true;
  }
  size_t at = 1;
  for (; at < rest.size() && rest[at] != '"'; ++at) {
    if (rest[at] == '\\' && at + 1 < rest.size() && (rest[at + 1] == '"' || rest[at + 1] == '\\')) ++at;
    value += rest[at];
  }
  if (at == rest.size()) throw malformed("whose quotes are closed; got one that is open");
  rest.remove_prefix(at + 1);
  return true;
}

std::string boundary_of(std::string_view content_type) {
  const size_t end = std::min(content_type.find(';'), content_type.size());
  if (lower(trimmed(content_type.substr(0, end))) != "multipart/form-data") {
    throw Error(Code::kUnsupportedMedia, "[http.multipart] expected Content-Type: multipart/form-data; got " +
                                             std::string(content_type.substr(0, 100)));
  }
  std::string_view rest = content_type.substr(end);
  std::string name, value;
  while (take_parameter(rest, name, value)) {
    if (name == "boundary" && !value.empty() && value.size() <= kMaxBoundaryBytes) return value;
  }
  throw malformed("with a boundary of 1 to 70 characters; got none");
}

/// The fields of one part's head.
FormPart parse_head(std::string_view head) {
  FormPart part;
  bool is_named = false;
  while (!head.empty()) {
    const size_t end = std::min(head.find("\r\n"), head.size());
    const std::string_view line = head.substr(0, end);
    head.remove_prefix(std::min(end + 2, head.size()));
    const size_t colon = line.find(':');
    if (colon == std::string_view::npos) throw malformed("whose parts have header lines; got another");
    if (lower(trimmed(line.substr(0, colon))) != "content-disposition") continue;
    std::string_view rest = trimmed(line.substr(colon + 1));
    const size_t semicolon = std::min(rest.find(';'), rest.size());
    if (lower(trimmed(rest.substr(0, semicolon))) != "form-data")
      throw malformed("whose parts are form-data; got another");
    rest.remove_prefix(semicolon);
    std::string name, value;
    while (take_parameter(rest, name, value)) {
      if (name == "name") {
        part.name = unescaped(value);
        is_named = true;
      } else if (name == "filename") {
        part.filename = unescaped(value);
      }
    }
  }
  if (!is_named) throw malformed("whose parts have names; got one without");
  return part;
}

}  // namespace

std::vector<FormPart> parse_form(std::string_view content_type, std::string_view body) {
  const std::string boundary = "--" + boundary_of(content_type);
  const std::string delimiter = "\r\n" + boundary;
  std::vector<FormPart> parts;
  if (!body.starts_with(boundary)) throw malformed("that begins with its boundary; got another");
  body.remove_prefix(boundary.size());
  while (!body.starts_with("--")) {
    if (parts.size() == kMaxParts) throw malformed("of at most 64 parts; got more");
    if (!body.starts_with("\r\n")) throw malformed("whose boundaries are lines; got another");
    body.remove_prefix(2);
    const size_t head_end = body.substr(0, kMaxHeadBytes).find("\r\n\r\n");
    if (head_end == std::string_view::npos)
      throw malformed("whose parts have heads of at most 8 KiB; got another");
    FormPart part = parse_head(body.substr(0, head_end));
    body.remove_prefix(head_end + 4);
    const size_t end = body.find(delimiter);
    if (end == std::string_view::npos) throw malformed("that is whole; got one that breaks off");
    part.data = body.substr(0, end);
    body.remove_prefix(end + delimiter.size());
    parts.push_back(std::move(part));
  }
  return parts;
}

}  // namespace penstock::http
