#include "http/local_exchange.h"

#include <utility>

#include "base/error.h"

namespace penstock::http {

using base::Code;
using base::Error;

LocalExchange::~LocalExchange() {
  if (on_response_) on_response_({500, {}, "", ""});
}

void LocalExchange::respond(Response response) {
  const OnResponse on_response = std::exchange(on_response_, nullptr);
  if (!on_response)
    throw Error(Code::kInternal, "[http.local] expected one answer to a request; got a second");
  on_response(std::move(response));
}

std::shared_ptr<Stream> LocalExchange::start_stream(Response, StreamOptions) {
  throw Error(Code::kInternal, "[http.local] expected an answer in one piece; got a stream");
}

void call_route(const Router& router, Request request, LocalExchange::OnResponse on_response) {
  auto exchange = std::make_shared<LocalExchange>(std::move(on_response));
  auto match = router.match(request.method, request.path);
  if (!match || match->handler == nullptr) return exchange->respond({404, {}, "", ""});
  request.params = std::move(match->params);
  (*match->handler)(std::move(request), std::move(exchange));
}

}  // namespace penstock::http
