#include "http/request_parser.h"

#include <algorithm>
#include <limits>
#include <utility>

#include <boost/asio/buffer.hpp>
#include <boost/beast/core/buffers_range.hpp>
#include <boost/beast/core/string.hpp>
#include <boost/beast/http/parser.hpp>

#include "http/uri.h"

namespace penstock::http {
namespace beast = boost::beast::http;
using base::Code;

namespace {

std::string_view view(boost::beast::string_view text) {
  return {text.data(), text.size()};
}

bool same(std::string_view a, std::string_view b) {
  return boost::beast::iequals({a.data(), a.size()}, {b.data(), b.size()});
}

}  // namespace

/// A text, as the library's string_body, which may be taken away in pieces: the length that is announced
/// reserves nothing.
struct PieceBody {
  using value_type = std::string;

  class reader {
   public:
    template <bool is_request, class Fields>
    reader(beast::header<is_request, Fields>&, value_type& body) : body_(body) {}

    void init(const boost::optional<uint64_t>& length, boost::system::error_code& ec) {
      constexpr uint64_t kMostReserved = 1 << 20;
      if (length) body_.reserve(static_cast<size_t>(std::min(*length, kMostReserved)));
      ec = {};
    }
    template <class Buffers>
    size_t put(const Buffers& buffers, boost::system::error_code& ec) {
      ec = {};
      size_t bytes = 0;
      for (const boost::asio::const_buffer buffer : boost::beast::buffers_range_ref(buffers)) {
        body_.append(static_cast<const char*>(buffer.data()), buffer.size());
        bytes += buffer.size();
      }
      return bytes;
    }
    void finish(boost::system::error_code& ec) { ec = {}; }

   private:
    value_type& body_;
  };
};

struct RequestParser::Impl {
  beast::request_parser<PieceBody> parser;
};

RequestParser::RequestParser(const Limits& limits)
    : max_header_bytes_(limits.max_header_bytes),
      max_body_bytes_(limits.max_body_bytes),
      impl_(std::make_unique<Impl>()) {
  // Counted in parse_head: what the library takes for the size of a head depends on the pieces it comes in.
  impl_->parser.header_limit(std::numeric_limits<uint32_t>::max());
  // The real limit is set after the head: a body that is too large must not hide the head from the gate. No
  // limit at all (boost::none) would be taken for zero.
  impl_->parser.body_limit(std::numeric_limits<uint64_t>::max());
}

RequestParser::~RequestParser() = default;

bool RequestParser::has_body() const {
  return !impl_->parser.is_done();
}

std::optional<uint64_t> RequestParser::content_length() const {
  const auto length = impl_->parser.content_length();
  return length ? std::optional<uint64_t>(*length) : std::nullopt;
}

RequestParser::State RequestParser::fail(int status, Code code, const std::string& message) {
  refusal_.emplace(Refusal{status, base::Error(code, "[http.parse] " + message)});
  return State::kFailed;
}

void RequestParser::time_out(std::string_view part) {
  fail(408, Code::kTimeout,
       "expected the request " + std::string(part) + " within the time limit; got a part of it");
}

RequestParser::State RequestParser::parse_head(std::string_view input, size_t& used_bytes) {
  used_bytes = 0;
  // Some clients end a body with a line end that belongs to nothing.
  while (!impl_->parser.got_some() && input.starts_with("\r\n")) {
    input.remove_prefix(2);
    used_bytes += 2;
  }
  if (input.empty() || input == "\r") return State::kNeedMore;
  boost::system::error_code ec;
  impl_->parser.eager(false);
  while (!impl_->parser.is_header_done()) {
    const size_t taken = impl_->parser.put({input.data(), input.size()}, ec);
    input.remove_prefix(taken);
    used_bytes += taken;
    header_bytes_ += taken;
    const bool needs_more = ec == beast::error::need_more;
    if (header_bytes_ + (needs_more ? input.size() : 0) > max_header_bytes_) {
      return fail(431, Code::kTooLarge, "expected request headers within the size limit; got more");
    }
    if (needs_more) return State::kNeedMore;
    if (ec) return fail(400, Code::kInvalidRequest, "expected an HTTP/1.1 request; got " + ec.message());
  }
  return take_head();
}

RequestParser::State RequestParser::take_head() {
  const auto& message = impl_->parser.get();
  http11_ = message.version() >= 11;
  keep_alive_ = impl_->parser.keep_alive();
  request_.method = std::string(view(message.method_string()));
  int hosts = 0, codings = 0;
  for (const auto& field : message) {
    request_.headers.push_back({std::string(view(field.name_string())), std::string(view(field.value()))});
    hosts += field.name() == beast::field::host;
    codings += field.name() == beast::field::transfer_encoding;
  }
  if (hosts > 1 || (http11_ && hosts == 0)) {
    return fail(400, Code::kInvalidRequest, "expected one Host header; got " + std::to_string(hosts));
  }
  // A coding that the parser does not read would leave the body to be taken for the next request.
  if (codings > 1 || (codings == 1 && !same(request_.header("Transfer-Encoding"), "chunked"))) {
    return fail(501, Code::kUnsupportedMedia, "expected Transfer-Encoding chunked or none; got another");
  }
  if (codings == 1 && !http11_) {
    return fail(400, Code::kInvalidRequest, "expected no Transfer-Encoding in HTTP/1.0; got one");
  }
  expects_continue_ = http11_ && same(request_.header("Expect"), "100-continue");
  impl_->parser.body_limit(max_body_bytes_);
  impl_->parser.eager(true);
  return take_target(view(message.target()));
}

RequestParser::State RequestParser::take_target(std::string_view target) {
  if (target == "*" && request_.method == "OPTIONS") {
    request_.path = raw_path_ = "*";
    return State::kDone;
  }
  if (!target.starts_with('/')) {  // absolute form, as sent to proxies
    const bool is_http = same(target.substr(0, 7), "http://") || same(target.substr(0, 8), "https://");
    if (!is_http)
      return fail(400, Code::kInvalidRequest, "expected a request target that is a path; got another");
    const size_t path = target.find_first_of("/?", target.find("://") + 3);
    target = path == std::string_view::npos ? "/" : target.substr(path);
  }
  target = target.substr(0, target.find('#'));
  const size_t question = target.find('?');
  raw_path_ = std::string(target.substr(0, question));
  if (raw_path_.empty()) raw_path_ = "/";
  if (question != std::string_view::npos) request_.query = std::string(target.substr(question + 1));
  auto path = percent_decode(raw_path_, true);
  if (!path) return fail(400, Code::kInvalidRequest, "expected a percent-encoded path; got a broken escape");
  request_.path = std::move(*path);
  return State::kDone;
}

std::optional<Refusal> RequestParser::unacceptable() const {
  const auto refuse = [](int status, Code code, const std::string& message) {
    return Refusal{status, base::Error(code, "[http.request] " + message)};
  };
  if (http11_ && !expects_continue_ && !request_.header("Expect").empty()) {
    return refuse(417, Code::kInvalidRequest, "expected Expect: 100-continue or none; got another");
  }
  const std::string_view coding = request_.header("Content-Encoding");
  if (has_body() && !coding.empty() && !same(coding, "identity")) {
    return refuse(415, Code::kUnsupportedMedia, "expected a request body without Content-Encoding; got one");
  }
  if (content_length().value_or(0) > max_body_bytes_) {
    return refuse(
        413, Code::kTooLarge,
        "expected a request body of at most " + std::to_string(max_body_bytes_) + " bytes; got more");
  }
  return std::nullopt;
}

std::string RequestParser::take_body() {
  std::string& body = impl_->parser.is_done() ? request_.body : impl_->parser.get().body();
  return std::exchange(body, {});
}

void RequestParser::set_body_limit(uint64_t bytes) {
  max_body_bytes_ = bytes;
  impl_->parser.body_limit(bytes);
}

RequestParser::State RequestParser::parse_body(std::string_view input, size_t& used_bytes) {
  used_bytes = 0;
  boost::system::error_code ec;
  while (!impl_->parser.is_done() && !input.empty() && !ec) {
    const size_t taken = impl_->parser.put({input.data(), input.size()}, ec);
    input.remove_prefix(taken);
    used_bytes += taken;
  }
  if (ec == beast::error::body_limit) {
    return fail(413, Code::kTooLarge,
                "expected a request body of at most " + std::to_string(max_body_bytes_) + " bytes; got more");
  }
  if (ec && ec != beast::error::need_more) {
    return fail(400, Code::kInvalidRequest, "expected a well-formed request body; got " + ec.message());
  }
  if (!impl_->parser.is_done()) return State::kNeedMore;
  request_.body = std::move(impl_->parser.get().body());
  return State::kDone;
}

}  // namespace penstock::http
