// A request that the program makes of its own routes: the answer goes to a callback. There is no peer that
// could go away and no stream. Any thread.
#pragma once

#include <functional>
#include <memory>

#include "http/exchange.h"
#include "http/router.h"

namespace penstock::http {

class LocalExchange : public Exchange {
 public:
  using OnResponse = std::function<void(Response)>;

  /// Called once, on the thread that answers; with status 500 where nobody does.
  explicit LocalExchange(OnResponse on_response) : on_response_(std::move(on_response)) {}
  ~LocalExchange() override;

  void respond(Response response) override;
  std::shared_ptr<Stream> start_stream(Response head, StreamOptions options) override;
  void on_disconnect(std::function<void()>) override {}
  bool disconnected() const override { return false; }

 private:
  OnResponse on_response_;
};

/// Runs the handler of the request's method and path; 404 without one. What a handler throws is thrown.
void call_route(const Router& router, Request request, LocalExchange::OnResponse on_response);

}  // namespace penstock::http
