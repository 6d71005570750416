// One HTTP request and one response as plain data, and the handler that joins them. Values only: no thread,
// no I/O.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace penstock::http {

struct Header {
  std::string name;
  std::string value;
};

/// The value of the first header of that name (any case), or empty.
std::string_view find_header(const std::vector<Header>& headers, std::string_view name);

struct Request {
  std::string method;           // upper case as sent; HEAD stays HEAD on a GET route
  std::string path;             // percent-decoded, but %2F stays as it was sent: a slash is a border
  std::string query;            // raw, without the '?'
  std::vector<Header> headers;  // in the order sent, values without CR or LF
  std::string body;             // whole; empty while the gate looks
  std::string peer;             // "127.0.0.1:50312", or "unix"
  std::map<std::string, std::string> params;  // of the route pattern, fully decoded

  /// The value of the first header of that name (any case), or empty.
  std::string_view header(std::string_view name) const { return find_header(headers, name); }
};

/// Content-Length, Connection, Transfer-Encoding and Date are the transport's: such entries of `headers` are
/// dropped.
struct Response {
  int status = 200;
  std::vector<Header> headers;
  std::string body;
  std::string content_type;
};

/// The body of a JSON answer. Bytes that are not UTF-8, as a message may quote, are replaced.
Response json_response(int status, const base::Json& body);

class Exchange;

/// Runs on an io thread and must not block. May keep the exchange and answer later from any thread. A
/// base::Error that it throws is answered through ServerOptions::error_response, anything else as kInternal.
using Handler = std::function<void(Request, std::shared_ptr<Exchange>)>;

}  // namespace penstock::http
