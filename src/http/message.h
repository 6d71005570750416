// One HTTP request and one response as plain data, and the handler that joins them. Values only: no thread,
// no I/O.
#pragma once

#include <cstdint>
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

/// Takes the body of an upload while it arrives. Called on the io thread, which it must not hold up;
/// destroyed without finish() where the upload broke off.
class BodySink {
 public:
  virtual ~BodySink() = default;
  /// False while it has as much as it can hold. It then calls the `wake` that it was made with, once it can
  /// take more.
  virtual bool is_ready() = 0;
  /// The next piece. A base::Error that it throws refuses the rest.
  virtual void write(std::string piece) = 0;
  /// The body is whole: answers, now or later, from any thread.
  virtual void finish(std::shared_ptr<Exchange> exchange) = 0;
};

/// A route whose body may be larger than memory should hold.
struct Upload {
  uint64_t max_body_bytes = 0;
  /// After the head, on the io thread. A base::Error that it throws refuses the request before its body.
  /// `wake` may be called from any thread, at any time.
  std::function<std::shared_ptr<BodySink>(const Request& head, std::function<void()> wake)> open;
};

/// Runs on an io thread and must not block. May keep the exchange and answer later from any thread. A
/// base::Error that it throws is answered through ServerOptions::error_response, anything else as kInternal.
using Handler = std::function<void(Request, std::shared_ptr<Exchange>)>;

}  // namespace penstock::http
