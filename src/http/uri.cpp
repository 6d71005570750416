#include "http/uri.h"

#include <algorithm>

namespace penstock::http {
namespace {

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

bool unreserved(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' || c == '.' ||
         c == '_' || c == '~';
}

/// The part between "//" and the path, with its place in `url`; empty if there is none.
std::string_view authority_of(std::string_view url) {
  const size_t scheme = url.find("://");
  if (scheme == std::string_view::npos) return {};
  const std::string_view rest = url.substr(scheme + 3);
  return rest.substr(0, rest.find_first_of("/?#"));
}

std::string_view without_user(std::string_view authority) {
  const size_t at = authority.rfind('@');
  return at == std::string_view::npos ? authority : authority.substr(at + 1);
}

}  // namespace

std::optional<std::string> percent_decode(std::string_view text, bool keep_slash) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out += text[i];
      continue;
    }
    if (i + 2 >= text.size()) return std::nullopt;
    const int high = hex_value(text[i + 1]), low = hex_value(text[i + 2]);
    const int byte = high * 16 + low;
    if (high < 0 || low < 0 || byte == 0) return std::nullopt;
    if (keep_slash && byte == '/') {
      out += text.substr(i, 3);
    } else {
      out += static_cast<char>(byte);
    }
    i += 2;
  }
  return out;
}

std::string percent_encode(std::string_view text, bool keep_slash) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    if (unreserved(c) || (keep_slash && c == '/')) {
      out += c;
    } else {
      const auto byte = static_cast<unsigned char>(c);
      out += {'%', kDigits[byte >> 4], kDigits[byte & 15]};
    }
  }
  return out;
}

std::optional<std::vector<std::pair<std::string, std::string>>> parse_query(std::string_view query) {
  const auto decode = [](std::string_view text) {
    std::string spaced(text);
    std::replace(spaced.begin(), spaced.end(), '+', ' ');
    return percent_decode(spaced);
  };
  std::vector<std::pair<std::string, std::string>> fields;
  while (!query.empty()) {
    const std::string_view field = query.substr(0, query.find('&'));
    query.remove_prefix(std::min(field.size() + 1, query.size()));
    if (field.empty()) continue;
    const size_t equals = field.find('=');
    auto name = decode(field.substr(0, equals));
    auto value = decode(equals == std::string_view::npos ? "" : field.substr(equals + 1));
    if (!name || !value) return std::nullopt;
    fields.emplace_back(std::move(*name), std::move(*value));
  }
  return fields;
}

std::string public_url(std::string_view url) {
  const std::string_view bare = url.substr(0, url.find_first_of("?#"));
  const std::string_view authority = authority_of(bare);
  if (authority.empty()) return std::string(bare);
  const size_t begin = static_cast<size_t>(authority.data() - bare.data());
  std::string out(bare.substr(0, begin));
  out += without_user(authority);
  out += bare.substr(begin + authority.size());
  return out;
}

std::string origin_of(std::string_view url) {
  const std::string_view authority = without_user(authority_of(url));
  if (authority.empty()) return {};
  const std::string_view scheme = url.substr(0, url.find("://"));
  std::string out(scheme);
  out += "://";
  out += authority;
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  const size_t bracket = authority.rfind(']'), colon = authority.rfind(':');
  const bool has_port =
      colon != std::string_view::npos && (bracket == std::string_view::npos || colon > bracket);
  if (!has_port) out += out.starts_with("https:") ? ":443" : ":80";
  return out;
}

}  // namespace penstock::http
