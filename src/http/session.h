// One connection's requests, one after the other: read, gate, route, handler, answer. A coroutine on one io
// thread.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "http/connection.h"
#include "http/exchange_state.h"
#include "http/request_parser.h"
#include "http/server_state.h"

namespace penstock::http {

class Session final : public Connection, private ExchangeOwner {
 public:
  Session(Socket socket, std::shared_ptr<ServerState> server, std::string peer);
  ~Session() override;

  /// Serves until the connection ends, then calls `on_end`. With `refuse` it only says that the server is
  /// full.
  void start(bool refuse, std::function<void(Session*)> on_end);

 private:
  template <class T>
  using Task = boost::asio::awaitable<T>;
  enum class Read { kDone, kRefused, kEnd };

  Task<void> run(std::shared_ptr<Session> self, bool refuse);
  Task<bool> serve_one();
  Task<Read> read_head(RequestParser& parser);
  Task<Read> read_body(RequestParser& parser);
  Task<Read> read_upload(RequestParser& parser, BodySink& sink);
  Task<bool> handle(RequestParser& parser);
  Task<bool> receive(RequestParser& parser, const Upload& upload);
  Task<bool> send_continue(RequestParser& parser);
  Task<bool> call(RequestParser& parser, const Handler& handler);
  Task<bool> refuse(RequestParser& parser, Response response);
  Task<bool> answer(const Request& request, bool keep_alive);
  Task<bool> send_response(const Request& request, Response response, bool keep_alive);
  Task<bool> send_stream(const Request& request, bool keep_alive);
  Task<bool> pump_stream(const StreamOptions& options, std::string out, bool chunked);
  Task<bool> end_broken();

  void wake_session() override { wake_from_any_thread(); }
  bool interrupted() override { return exchange_ && exchange_->wants_attention(); }
  std::optional<Response> gate(const Request& request) const;
  /// What answers a request.
  struct Route {
    const Handler* handler = nullptr;
    const Upload* upload = nullptr;
  };
  std::optional<Response> find_route(RequestParser& parser, Route& route) const;
  std::optional<Response> open_upload(const Upload& upload, const Request& request,
                                      std::shared_ptr<BodySink>& sink);
  Response refusal(const Refusal& why, const Request& request) const;
  void run_handler(const Handler& handler, Request whole, const Request& head);
  void notify_disconnect();

  const std::shared_ptr<ServerState> server_;
  const Limits& limits_;
  const std::string peer_;
  std::shared_ptr<ExchangeState> exchange_;  // of the request being answered
  bool http11_ = true;                       // of the request being answered
};

}  // namespace penstock::http
