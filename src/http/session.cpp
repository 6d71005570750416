#include "http/session.h"

#include <utility>

#include <boost/asio/co_spawn.hpp>

#include "base/log.h"
#include "http/response_head.h"

namespace penstock::http {
namespace net = boost::asio;
using base::Code;
using base::Error;

namespace {

constexpr int kLingerMs = 2000;
constexpr uint64_t kDrainedBodyBytes =
    64 << 10;  // a refused request's body up to this is read, to keep the connection
constexpr size_t kInputSlackBytes = 64 << 10;

Clock::time_point after_ms(int ms) {
  return Clock::now() + std::chrono::milliseconds(ms);
}

/// Counts a request as in flight for as long as it lives.
class ActiveRequest {
 public:
  explicit ActiveRequest(ServerState& server) : server_(server) { server_.begin_request(); }
  ~ActiveRequest() { server_.end_request(); }
  ActiveRequest(const ActiveRequest&) = delete;

 private:
  ServerState& server_;
};

void add_header(Response& response, std::string name, std::string value) {
  if (find_header(response.headers, name).empty())
    response.headers.push_back({std::move(name), std::move(value)});
}

}  // namespace

Session::Session(Socket socket, std::shared_ptr<ServerState> server, std::string peer)
    : Connection(std::move(socket), server->options.limits.max_header_bytes + kInputSlackBytes),
      server_(std::move(server)),
      limits_(server_->options.limits),
      peer_(std::move(peer)) {}

Session::~Session() {
  if (exchange_) exchange_->complete();
}

void Session::start(bool refuse, std::function<void(Session*)> on_end) {
  auto self = std::static_pointer_cast<Session>(shared_from_this());
  auto done = [self, on_end = std::move(on_end)](const std::exception_ptr& failure) {
    try {
      if (failure) std::rethrow_exception(failure);
    } catch (const std::exception& e) {
      base::log::error("[http.session] the connection failed: {}", e.what());
    }
    if (self->exchange_) {
      self->notify_disconnect();
      self->exchange_->detach();
      self->exchange_.reset();
    }
    self->close();
    on_end(self.get());
  };
  net::co_spawn(executor(), run(self, refuse), std::move(done));
}

Session::Task<void> Session::run([[maybe_unused]] std::shared_ptr<Session> self, bool refuse) {
  arm_read();
  if (refuse) {
    const Error full(Code::kOverloaded,
                     "[http.accept] expected fewer connections; got the most that are allowed");
    const Request nothing;
    Response response = refusal({503, full}, nothing);
    co_await send_response(nothing, std::move(response), false);
  } else {
    bool more = true;
    while (more) more = co_await serve_one();
  }
  if (!broken() && !stopped()) co_await linger(kLingerMs);
}

Session::Task<bool> Session::serve_one() {
  RequestParser parser(limits_);
  const Read head = co_await read_head(parser);
  if (head == Read::kEnd) co_return false;
  parser.request().peer = peer_;
  http11_ = parser.http11();
  const ActiveRequest active(*server_);
  if (head == Read::kRefused) {
    const Request nothing;
    Response response = refusal(parser.refusal(), nothing);
    co_await send_response(nothing, std::move(response), false);
    co_return false;
  }
  const bool keep_alive = co_await handle(parser);
  co_return keep_alive;
}

Session::Task<Session::Read> Session::read_head(RequestParser& parser) {
  auto deadline = after_ms(limits_.idle_timeout_ms);
  bool begun = false;
  for (;;) {
    if (!begun && !input().empty()) {
      begun = true;
      deadline = after_ms(limits_.header_timeout_ms);
    }
    size_t used = 0;
    const auto state = parser.parse_head(input(), used);
    consume(used);
    if (state == RequestParser::State::kDone) co_return Read::kDone;
    if (state == RequestParser::State::kFailed) co_return Read::kRefused;
    if (lost()) co_return Read::kEnd;
    if (Clock::now() >= deadline) {
      if (!begun) co_return Read::kEnd;
      parser.time_out("head");
      co_return Read::kRefused;
    }
    co_await wait(deadline);
  }
}

Session::Task<Session::Read> Session::read_body(RequestParser& parser) {
  const auto deadline = after_ms(limits_.body_timeout_ms);
  for (;;) {
    size_t used = 0;
    const auto state = parser.parse_body(input(), used);
    consume(used);
    if (state == RequestParser::State::kDone) co_return Read::kDone;
    if (state == RequestParser::State::kFailed) co_return Read::kRefused;
    if (lost()) co_return Read::kEnd;
    if (Clock::now() >= deadline || input_full()) {
      // A chunk header that fills the whole input never ends either.
      parser.time_out("body");
      co_return Read::kRefused;
    }
    co_await wait(deadline);
  }
}

/// The time limit is for each piece, since an upload may take as long as it takes.
Session::Task<Session::Read> Session::read_upload(RequestParser& parser, BodySink& sink) {
  auto deadline = after_ms(limits_.body_timeout_ms);
  for (;;) {
    const bool ready = sink.is_ready();
    size_t used = 0;
    auto state = RequestParser::State::kNeedMore;
    if (ready) state = parser.parse_body(input(), used);
    consume(used);
    if (used > 0 || !ready) deadline = after_ms(limits_.body_timeout_ms);
    if (std::string piece = parser.take_body(); !piece.empty()) sink.write(std::move(piece));
    if (state == RequestParser::State::kDone) co_return Read::kDone;
    if (state == RequestParser::State::kFailed) co_return Read::kRefused;
    if (broken() || stopped() || (half_closed() && ready)) co_return Read::kEnd;
    if (Clock::now() >= deadline || (ready && input_full())) {
      parser.time_out("body");
      co_return Read::kRefused;
    }
    co_await wait(deadline);
  }
}

/// Answers a request whose body was not read: reads a small one, so that the connection can live on.
Session::Task<bool> Session::refuse(RequestParser& parser, Response response) {
  bool keep_alive = parser.keep_alive();
  if (parser.has_body()) {
    const bool small = parser.content_length().value_or(kDrainedBodyBytes + 1) <= kDrainedBodyBytes;
    Read body = Read::kRefused;
    if (small && parser.request().header("Expect").empty()) body = co_await read_body(parser);
    if (body == Read::kEnd) co_return false;
    keep_alive = keep_alive && body == Read::kDone;
  }
  co_return co_await send_response(parser.request(), std::move(response), keep_alive);
}

std::optional<Response> Session::gate(const Request& request) const {
  try {
    if (server_->options.gate) {
      if (auto response = server_->options.gate(request)) return response;
    }
  } catch (const Error& error) {
    return server_->error_response(error, request);
  } catch (const std::exception& failure) {
    base::log::error("[http.gate] the hook failed: {}", failure.what());
    return server_->error_response(Error(Code::kInternal, "[http.gate] an internal error"), request);
  }
  if (!server_->draining) return std::nullopt;
  return refusal({503, Error(Code::kUnavailable, "[http.request] the server is shutting down")}, request);
}

Response Session::refusal(const Refusal& why, const Request& request) const {
  Response response = server_->error_response(why.error, request);
  response.status = why.status;
  if (why.status == 503) add_header(response, "Retry-After", "1");
  return response;
}

/// The handler, or the answer to a request that no handler takes.
std::optional<Response> Session::find_route(RequestParser& parser, Route& route) const {
  Request& request = parser.request();
  const bool any_path = parser.raw_path() == "*";
  auto match = server_->router.match(request.method, parser.raw_path());
  if (match && (match->handler != nullptr || match->upload != nullptr)) {
    request.params = std::move(match->params);
    route = {match->handler, match->upload};
    if (match->upload != nullptr) parser.set_body_limit(match->upload->max_body_bytes);
    return std::nullopt;
  }
  if ((match || any_path) && request.method == "OPTIONS") {
    Response response;
    response.status = 204;
    if (match) response.headers.push_back({"Allow", match->allow});
    return response;
  }
  if (!match) {
    const Error error(Code::kNotFound,
                      "[http.route] expected one of " + server_->router.paths() + "; got " + request.path);
    return refusal({404, error}, request);
  }
  const Error error(Code::kMethodNotAllowed,
                    "[http.route] expected one of " + match->allow + "; got " + request.method);
  Response response = refusal({405, error}, request);
  response.headers.push_back({"Allow", match->allow});
  return response;
}

Session::Task<bool> Session::handle(RequestParser& parser) {
  Route route;
  auto early = gate(parser.request());
  if (!early) early = find_route(parser, route);
  if (!early) {
    if (const auto why = parser.unacceptable()) early = refusal(*why, parser.request());
  }
  if (early) co_return co_await refuse(parser, std::move(*early));
  if (route.upload != nullptr) co_return co_await receive(parser, *route.upload);
  if (parser.has_body()) {
    const bool sent = co_await send_continue(parser);
    if (!sent) co_return false;
    const Read body = co_await read_body(parser);
    if (body == Read::kEnd) co_return false;
    if (body == Read::kRefused) {
      Response response = refusal(parser.refusal(), parser.request());
      co_return co_await send_response(parser.request(), std::move(response), false);
    }
  }
  co_return co_await call(parser, *route.handler);
}

Session::Task<bool> Session::send_continue(RequestParser& parser) {
  if (!parser.expects_continue() || !input().empty()) co_return true;
  const bool sent = co_await send("HTTP/1.1 100 Continue\r\n\r\n", limits_.write_timeout_ms, false);
  co_return sent;
}

std::optional<Response> Session::open_upload(const Upload& upload, const Request& request,
                                             std::shared_ptr<BodySink>& sink) {
  const auto wake = [self = weak_from_this()] {
    if (const auto session = self.lock()) session->wake_from_any_thread();
  };
  try {
    sink = upload.open(request, wake);
    return std::nullopt;
  } catch (const Error& error) {
    return server_->error_response(error, request);
  } catch (const std::exception& failure) {
    base::log::error("[http.upload] {} {} failed: {}", request.method, request.path, failure.what());
    return server_->error_response(Error(Code::kInternal, "[http.upload] an internal error"), request);
  }
}

Session::Task<bool> Session::receive(RequestParser& parser, const Upload& upload) {
  std::shared_ptr<BodySink> sink;
  auto early = open_upload(upload, parser.request(), sink);
  if (early) co_return co_await refuse(parser, std::move(*early));
  std::optional<Response> refused;
  if (parser.has_body()) {
    const bool sent = co_await send_continue(parser);
    if (!sent) co_return false;
    Read body = Read::kEnd;
    try {
      body = co_await read_upload(parser, *sink);
    } catch (const Error& error) {
      refused = server_->error_response(error, parser.request());
    }
    if (body == Read::kRefused) refused = refusal(parser.refusal(), parser.request());
    if (refused) {
      sink.reset();
      co_return co_await send_response(parser.request(), std::move(*refused), false);
    }
    if (body == Read::kEnd) co_return false;
  }
  const Handler finish = [&sink](const Request&, const std::shared_ptr<Exchange>& exchange) {
    sink->finish(exchange);
  };
  co_return co_await call(parser, finish);
}

Session::Task<bool> Session::call(RequestParser& parser, const Handler& handler) {
  Request request = std::move(parser.request());
  std::string body = std::move(request.body);
  request.body.clear();
  Request whole = request;
  whole.body = std::move(body);
  const bool is_head = request.method == "HEAD";
  exchange_ = std::make_shared<ExchangeState>(static_cast<ExchangeOwner*>(this), limits_.stream_buffer_bytes,
                                              is_head);
  run_handler(handler, std::move(whole), request);
  const bool keep_alive = co_await answer(request, parser.keep_alive());
  if (!stopped()) {
    exchange_->complete();
    exchange_.reset();
  }
  co_return keep_alive;
}

void Session::run_handler(const Handler& handler, Request whole, const Request& head) {
  const auto exchange = std::make_shared<Exchange>(exchange_);
  std::optional<Error> error;
  try {
    handler(std::move(whole), exchange);
    return;
  } catch (const Error& e) {
    error = e;
  } catch (const std::exception& e) {
    base::log::error("[http.handler] {} {} failed: {}", head.method, head.path, e.what());
  } catch (...) {
    base::log::error("[http.handler] {} {} failed", head.method, head.path);
  }
  if (!error) error.emplace(Code::kInternal, "[http.handler] an internal error");
  exchange_->fail(server_->error_response(*error, head));
}

void Session::notify_disconnect() {
  try {
    exchange_->disconnect();
  } catch (const std::exception& failure) {
    base::log::error("[http.disconnect] a callback failed: {}", failure.what());
  }
}

Session::Task<bool> Session::answer(const Request& request, bool keep_alive) {
  for (;;) {
    const auto kind = exchange_->answer_or_arm();
    if (kind == ExchangeState::Answer::kStream) co_return co_await send_stream(request, keep_alive);
    if (kind == ExchangeState::Answer::kResponse) {
      Response response = exchange_->take_response();
      co_return co_await send_response(request, std::move(response), keep_alive);
    }
    if (kind == ExchangeState::Answer::kDropped) {
      if (half_closed()) co_return false;  // the handler was told that the peer is lost, and has let go
      const Error error(Code::kInternal, "[http.handler] expected an answer; got none");
      Response response = server_->error_response(error, request);
      co_return co_await send_response(request, std::move(response), keep_alive);
    }
    if (stopped()) co_return false;
    if (broken()) co_return co_await end_broken();
    // A half-closed peer may still read: it is told of as lost, and answered if the handler does answer.
    if (half_closed()) notify_disconnect();
    co_await wait(kForever);
  }
}

/// The peer cannot be answered: waits until the handler knows and has let go.
Session::Task<bool> Session::end_broken() {
  close();
  while (!stopped() && !exchange_->settled_or_arm()) {
    notify_disconnect();
    co_await wait(kForever);
  }
  co_return false;
}

Session::Task<bool> Session::send_response(const Request& request, Response response, bool keep_alive) {
  keep_alive = keep_alive && !server_->draining;
  server_->decorate(request, response);
  HeadFraming framing;
  framing.http11 = http11_;
  framing.keep_alive = keep_alive;
  if (!is_bodyless(response.status)) framing.content_length = response.body.size();
  std::string out;
  append_head(out, response, framing);
  if (framing.content_length && request.method != "HEAD") out += response.body;
  response.body = {};
  const bool sent = co_await send(out, limits_.write_timeout_ms, false);
  if (!sent) close_with_reset();
  co_return sent&& keep_alive;
}

Session::Task<bool> Session::send_stream(const Request& request, bool keep_alive) {
  Response head = exchange_->take_response();
  const StreamOptions options = exchange_->stream_options();
  server_->decorate(request, head);
  HeadFraming framing;
  framing.http11 = http11_;
  framing.chunked = http11_;
  framing.keep_alive = keep_alive && http11_ && !server_->draining;
  std::string out;
  append_head(out, head, framing);
  if (request.method == "HEAD") {
    const bool sent = co_await send(out, limits_.write_timeout_ms, false);
    co_return sent&& framing.keep_alive;
  }
  const bool whole = co_await pump_stream(options, std::move(out), framing.chunked);
  co_return whole&& framing.keep_alive;
}

/// Sends what the stream holds until it ends. `out` begins with the head. False when the connection is of no
/// more use.
Session::Task<bool> Session::pump_stream(const StreamOptions& options, std::string out, bool chunked) {
  const bool keeps_alive = options.keepalive_ms > 0 && !options.keepalive.empty();
  auto keepalive_at = keeps_alive ? after_ms(options.keepalive_ms) : kForever;
  ExchangeState::Piece piece;
  for (;;) {
    exchange_->take_or_arm(piece);
    append_chunk(out, piece.data, chunked);
    if (piece.finished) append_last_chunk(out, chunked);
    if (stopped() || broken() || piece.too_slow || (half_closed() && !piece.finished)) {
      if (piece.too_slow) close_with_reset();
      co_return co_await end_broken();
    }
    if (piece.aborted) {
      co_await send(out, limits_.write_timeout_ms, true);
      close();
      co_return false;
    }
    // Without chunks an end that comes after the last piece has no bytes of its own.
    if (out.empty() && piece.finished) co_return true;
    if (out.empty() && Clock::now() < keepalive_at) {
      co_await wait(keepalive_at);
      continue;
    }
    if (out.empty()) append_chunk(out, options.keepalive, chunked);
    std::string_view rest = out;
    bool sent = send_some(rest);
    if (sent && !rest.empty()) sent = co_await send(rest, limits_.write_timeout_ms, !piece.finished);
    out.clear();
    if (sent && piece.finished) co_return true;
    if (!sent) {
      close_with_reset();
      co_return co_await end_broken();
    }
    if (keeps_alive) keepalive_at = after_ms(options.keepalive_ms);
  }
}

}  // namespace penstock::http
