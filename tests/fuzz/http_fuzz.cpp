// HTTP in memory: bytes to requests within limits, whatever the pieces they come in; then routes, access and
// the headers that the surfaces read. The first byte says how long the pieces are.
#include <algorithm>

#include "api/access.h"
#include "api/trace.h"
#include "fuzz/target.h"
#include "http/request_parser.h"
#include "http/router.h"
#include "http/uri.h"

namespace penstock::fuzz {
namespace {

using http::RequestParser;
using State = RequestParser::State;

http::Limits limits() {
  http::Limits limits;
  limits.max_header_bytes = 1024;
  limits.max_body_bytes = 512;
  return limits;
}

const http::Router& router() {
  static const http::Router routes = [] {
    http::Router out;
    const auto nothing = [](const http::Request&, const std::shared_ptr<http::Exchange>&) {};
    for (const char* path :
         {"/", "/v1/models", "/v1/models/{id...}", "/v1/requests/{id}/cancel", "/{a}/b/{c...}/d"})
      out.add("GET", path, nothing);
    return out;
  }();
  return routes;
}

std::string describe(const http::Request& request, const std::string& raw_path) {
  std::string out = request.method + ' ' + request.path + ' ' + request.query;
  for (const http::Header& header : request.headers) {
    expect(header.value.find_first_of("\r\n") == std::string::npos, "a line end in a header");
    out += '\n' + header.name + ':' + header.value;
  }
  out += "\n\n" + request.body;
  expect(request.body.size() <= limits().max_body_bytes, "a body above the limit");
  expect(request.path.find('\0') == std::string::npos, "a NUL in a path");
  if (const auto match = router().match(request.method, raw_path)) {
    for (const auto& [name, value] : match->params) out += '\n' + name + '=' + value;
  }
  return out;
}

void use(const http::Request& request) {
  static const api::Access open({"", {"https://a.b"}, true, {"c.d"}}), closed({"key", {"*"}});
  http::Response response;
  open.refuse(request);
  closed.refuse(request);
  open.add_cors(request, response);
  closed.add_cors(request, response);
  const std::string trace = api::origin_of(request, "s").trace_id;
  expect(trace.empty() || trace.size() == 32, "a trace id of another length");
  const std::string id = api::request_id(request);
  expect(!id.empty() && id.size() <= 128, "a request id of another length");
  if (const auto path = http::percent_decode(http::percent_encode(request.path))) {
    expect(*path == request.path, "a path that is coded into another one");
  }
}

/// Feeds the parser as a session does: what is there, then more.
State feed(RequestParser& parser, State (RequestParser::*step)(std::string_view, size_t&), std::string& input,
           std::string_view& rest, size_t piece) {
  for (;;) {
    size_t used = 0;
    const State state = (parser.*step)(input, used);
    expect(used <= input.size(), "more bytes used than there are");
    input.erase(0, used);
    if (state != State::kNeedMore || rest.empty()) return state;
    input += rest.substr(0, piece);
    rest.remove_prefix(std::min(piece, rest.size()));
  }
}

/// What one connection's bytes amount to. When a bad one is refused may depend on the pieces.
std::vector<std::string> serve(std::string_view rest, size_t piece) {
  std::vector<std::string> requests;
  std::string input;
  for (;;) {
    RequestParser parser(limits());
    State state = feed(parser, &RequestParser::parse_head, input, rest, piece);
    if (state != State::kDone || parser.unacceptable()) return requests;
    if (parser.has_body()) state = feed(parser, &RequestParser::parse_body, input, rest, piece);
    if (state != State::kDone) return requests;
    requests.push_back(describe(parser.request(), parser.raw_path()));
    use(parser.request());
  }
}

}  // namespace

std::vector<std::string> seeds() {
  return {
      "\xFFGET /v1/models/a%2Fb?x=%41#f HTTP/1.1\r\nHost: c.d:80\r\nAccept: */*\r\n\r\n",
      "\x03POST / HTTP/1.1\r\nHost: [::1]\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\nabc\r\nGET / "
      "HTTP/1.0\r\n\r\n",
      "\x05POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3;x=\"y\"\r\nabc\r\n0\r\nT: "
      "v\r\n\r\n",
      "\x01OPTIONS * HTTP/1.1\r\nHost: a\r\nOrigin: https://a.b\r\nAccess-Control-Request-Headers: x\r\n\r\n",
      "\x10GET http://u@h:1/v1/requests/r1/cancel HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer  "
      "key\r\nx-api-key: key\r\n"
      "traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\r\nx-request-id: "
      "a-b_c.d:1\r\nConnection: close\r\n\r\n"};
}

std::vector<std::string> words() {
  return {"\r\n",
          "\r\n\r\n",
          "\r\n ",
          "\n",
          "Transfer-Encoding: chunked\r\n",
          "Content-Length: ",
          "Host: x\r\n",
          "Content-Encoding: gzip\r\n",
          "Connection: keep-alive\r\n",
          "HTTP/1.1",
          "HTTP/1.0",
          "HEAD ",
          "%00",
          "%2f",
          "%",
          "//",
          "/../",
          "*",
          "0\r\n\r\n",
          "ffffffffffffffff\r\n",
          "Expect: 100-continue\r\n",
          "bearer ",
          "Upgrade: h2c\r\n",
          "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
          "https://",
          ".localhost"};
}

}  // namespace penstock::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace penstock::fuzz;
  if (size == 0) return 0;
  const Exact input(data + 1, size - 1);
  const std::vector<std::string> whole = serve(input.text(), input.text().size());
  expect(serve(input.text(), 1 + data[0] % 64) == whole, "other requests from the same bytes in pieces");
  return 0;
}
