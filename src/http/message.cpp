#include "http/message.h"

#include <algorithm>

namespace penstock::http {
namespace {

char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

bool same_name(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](char x, char y) { return lower(x) == lower(y); });
}

}  // namespace

std::string_view find_header(const std::vector<Header>& headers, std::string_view name) {
  for (const Header& header : headers) {
    if (same_name(header.name, name)) return header.value;
  }
  return {};
}

Response json_response(int status, const base::Json& body) {
  Response response;
  response.status = status;
  response.content_type = "application/json";
  response.body = body.dump(-1, ' ', false, base::Json::error_handler_t::replace);
  return response;
}

}  // namespace penstock::http
