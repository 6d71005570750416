#include "api/anthropic/routes.h"

#include <memory>
#include <utility>
#include <variant>

#include "api/anthropic/answer.h"
#include "api/anthropic/decode.h"
#include "api/anthropic/errors.h"
#include "api/body.h"
#include "api/trace.h"

namespace penstock::api::anthropic {
namespace {

using base::Json;

class Handlers {
 public:
  Handlers(serve::Service& service, Ignored& ignored, RouteOptions options)
      : service_(service),
        ignored_(ignored),
        signer_(std::make_shared<Signer>(std::move(options.signing_key))) {
    stream_options_.keepalive = ping_frame();
    stream_options_.keepalive_ms = options.keepalive_ms;
  }

  void message(const http::Request& request, chat::Origin origin, const ExchangePtr& exchange) const {
    Decoded decoded = decode_message(parse_body(request), *signer_);
    decoded.request.origin = std::move(origin);
    decoded.request.id = make_id("msg_");
    AnswerOptions options;
    options.id = decoded.request.id;
    options.stream = decoded.stream;
    options.shows_thinking = decoded.shows_thinking;
    options.stream_options = stream_options_;
    options.headers = answer_headers(decoded.request.origin, decoded.ignored, ignored_);
    auto answer = std::make_shared<Answer>(exchange, signer_, std::move(options));
    submit(service_, std::move(decoded.request), std::move(answer), exchange);
  }

  void count(const http::Request& request, const ExchangePtr& exchange) const {
    Decoded decoded = decode_count(parse_body(request), *signer_);
    const chat::Origin origin = origin_of(request, "anthropic_count");
    auto headers = answer_headers(origin, decoded.ignored, ignored_);
    service_.count_tokens(
        std::move(decoded.request), [exchange, headers](const std::variant<int32_t, base::Error>& counted) {
          const auto* tokens = std::get_if<int32_t>(&counted);
          http::Response response = tokens == nullptr ? error_response(std::get<base::Error>(counted))
                                                      : http::json_response(200, {{"input_tokens", *tokens}});
          response.headers.insert(response.headers.end(), headers.begin(), headers.end());
          exchange->respond(std::move(response));
        });
  }

 private:
  serve::Service& service_;
  Ignored& ignored_;
  const std::shared_ptr<const Signer> signer_;
  http::StreamOptions stream_options_;
};

}  // namespace

void add_routes(http::Router& router, serve::Service& service, Ignored& ignored, RouteOptions options) {
  const auto handlers = std::make_shared<Handlers>(service, ignored, std::move(options));
  Surface surface(router, service, ignored, error_response);
  // Clients whose base URL ends with /v1, as OpenAI's has to, double it.
  for (const std::string prefix : {"", "/v1"}) {
    surface.add_generating("POST", prefix + "/v1/messages", "anthropic_messages",
                           [handlers](const auto& request, auto origin, const ExchangePtr& exchange) {
                             handlers->message(request, std::move(origin), exchange);
                           });
    surface.add(
        "POST", prefix + "/v1/messages/count_tokens",
        [handlers](const auto& request, const ExchangePtr& exchange) { handlers->count(request, exchange); });
  }
}

}  // namespace penstock::api::anthropic
