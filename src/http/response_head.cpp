#include "http/response_head.h"

#include <array>
#include <charconv>
#include <ctime>

#include <boost/beast/http/status.hpp>

#include "base/log.h"

namespace penstock::http {
namespace {

/// The current time as HTTP writes it; formatted once a second on each thread.
const std::string& http_date() {
  thread_local std::time_t formatted = 0;
  thread_local std::string text;
  const std::time_t now = std::time(nullptr);
  if (now == formatted) return text;
  std::tm parts{};
  gmtime_r(&now, &parts);
  std::array<char, 40> buffer{};
  text.assign(buffer.data(),
              std::strftime(buffer.data(), buffer.size(), "%a, %d %b %Y %H:%M:%S GMT", &parts));
  formatted = now;
  return text;
}

bool is_transport_header(std::string_view name) {
  const std::vector<Header> one{{std::string(name), "x"}};
  for (const std::string_view own :
       {"Content-Length", "Connection", "Transfer-Encoding", "Date", "Keep-Alive"}) {
    if (!find_header(one, own).empty()) return true;
  }
  return false;
}

bool is_safe(const Header& header) {
  for (const char c : header.name) {
    if (c <= ' ' || c == ':' || c == 0x7f) return false;
  }
  for (const char c : header.value) {
    const auto byte = static_cast<unsigned char>(c);
    if ((byte < 0x20 && c != '\t') || byte == 0x7f) return false;
  }
  return !header.name.empty();
}

void append_header(std::string& out, std::string_view name, std::string_view value) {
  out += name;
  out += ": ";
  out += value;
  out += "\r\n";
}

}  // namespace

bool is_bodyless(int status) {
  return status < 200 || status == 204 || status == 304;
}

void append_head(std::string& out, const Response& response, const HeadFraming& framing) {
  const int status = response.status >= 100 && response.status <= 999 ? response.status : 500;
  const auto reason = boost::beast::http::obsolete_reason(static_cast<boost::beast::http::status>(status));
  out += framing.http11 ? "HTTP/1.1 " : "HTTP/1.0 ";
  out += std::to_string(status);
  out += ' ';
  out.append(reason.data(), reason.size());
  out += "\r\n";
  append_header(out, "Date", http_date());
  if (!response.content_type.empty()) append_header(out, "Content-Type", response.content_type);
  for (const Header& header : response.headers) {
    if (is_transport_header(header.name)) continue;
    if (is_safe(header)) {
      append_header(out, header.name, header.value);
    } else {
      base::log::error("[http.respond] expected a header without control characters; left one out");
    }
  }
  if (framing.content_length) append_header(out, "Content-Length", std::to_string(*framing.content_length));
  if (framing.chunked) append_header(out, "Transfer-Encoding", "chunked");
  if (!framing.keep_alive) {
    append_header(out, "Connection", "close");
  } else if (!framing.http11) {
    append_header(out, "Connection", "keep-alive");
  }
  out += "\r\n";
}

void append_chunk(std::string& out, std::string_view data, bool chunked) {
  if (data.empty()) return;
  if (chunked) {
    std::array<char, 16> digits{};
    const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), data.size(), 16).ptr;
    out.append(digits.data(), end);
    out += "\r\n";
  }
  out += data;
  if (chunked) out += "\r\n";
}

void append_last_chunk(std::string& out, bool chunked) {
  if (chunked) out += "0\r\n\r\n";
}

}  // namespace penstock::http
