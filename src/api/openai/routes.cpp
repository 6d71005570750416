#include "api/openai/routes.h"

#include <memory>

#include "api/body.h"
#include "api/openai/answer.h"
#include "api/openai/decode.h"
#include "api/openai/errors.h"
#include "base/unix_time.h"

namespace penstock::api::openai {
namespace {

class Handlers {
 public:
  Handlers(serve::Service& service, Ignored& ignored, RouteOptions options)
      : service_(service), ignored_(ignored), options_(std::move(options)) {}

  void chat(const http::Request& request, chat::Origin origin, const ExchangePtr& exchange) const {
    Decoded decoded = decode_chat(parse_body(request));
    decoded.request.origin = std::move(origin);
    auto encoder = make_chat_encoder(decoded.request.logprobs);
    start(std::move(decoded), std::move(encoder), "chatcmpl-", exchange);
  }

  void completion(const http::Request& request, chat::Origin origin, const ExchangePtr& exchange) const {
    Decoded decoded = decode_completion(parse_body(request));
    decoded.request.origin = std::move(origin);
    const auto prompts = std::get<chat::Completion>(decoded.request.input).prompts.size();
    const auto choices = static_cast<int32_t>(prompts) * decoded.request.n;
    auto encoder = make_completion_encoder(decoded.request.logprobs, choices);
    start(std::move(decoded), std::move(encoder), "cmpl-", exchange);
  }

 private:
  void start(Decoded decoded, std::unique_ptr<Encoder> encoder, std::string_view id_prefix,
             const ExchangePtr& exchange) const {
    AnswerOptions options;
    options.head = {make_id(id_prefix), base::unix_seconds(), "", decoded.include_usage};
    decoded.request.id = options.head.id;
    options.stream = decoded.stream;
    options.stream_options = options_.stream;
    options.headers = answer_headers(decoded.request.origin, decoded.ignored, ignored_);
    auto answer = std::make_shared<Answer>(exchange, std::move(encoder), std::move(options));
    submit(service_, std::move(decoded.request), std::move(answer), exchange);
  }

  serve::Service& service_;
  Ignored& ignored_;
  const RouteOptions options_;
};

}  // namespace

void add_routes(http::Router& router, serve::Service& service, Ignored& ignored, RouteOptions options) {
  const auto handlers = std::make_shared<Handlers>(service, ignored, std::move(options));
  Surface surface(router, service, ignored, error_response);
  surface.add_generating("POST", "/v1/chat/completions", "openai_chat",
                         [handlers](const auto& request, auto origin, const ExchangePtr& exchange) {
                           handlers->chat(request, std::move(origin), exchange);
                         });
  surface.add_generating("POST", "/v1/completions", "openai_completions",
                         [handlers](const auto& request, auto origin, const ExchangePtr& exchange) {
                           handlers->completion(request, std::move(origin), exchange);
                         });
}

}  // namespace penstock::api::openai
