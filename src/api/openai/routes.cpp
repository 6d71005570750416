#include "api/openai/routes.h"

#include <memory>

#include "api/body.h"
#include "api/openai/answer.h"
#include "api/openai/decode.h"
#include "api/openai/encoding_routes.h"
#include "api/openai/errors.h"
#include "base/unix_time.h"

namespace penstock::api::openai {
namespace {

using base::Json;

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

  void models(const ExchangePtr& exchange) const {
    Json body = {{"object", "list"}, {"data", Json::array()}};
    for (const serve::ModelCard& card : service_.models()) body["data"].push_back(model_json(card));
    exchange->respond(http::json_response(200, body));
  }

  void model(const http::Request& request, const ExchangePtr& exchange) const {
    exchange->respond(http::json_response(200, model_json(service_.model(request.params.at("id")))));
  }

 private:
  /// What is not known before a model was loaded once is null.
  static Json model_json(const serve::ModelCard& card) {
    const bool is_known = card.context_length > 0;
    const auto known = [&](auto value) { return is_known ? Json(std::move(value)) : Json(); };
    const bool generates = !card.embeds && !card.scores_pairs;
    Json capabilities = {{"chat_completion", known(generates && card.has_template)},
                         {"completion", known(generates)},
                         {"embeddings", known(card.embeds)},
                         {"rerank", known(card.scores_pairs)}};
    return {{"id", card.id},
            {"object", "model"},
            {"created", card.created},
            {"owned_by", "penstock"},
            {"loaded", card.loaded},
            {"context_window", known(card.context_length)},
            {"max_model_len", known(card.context_length)},
            {"capabilities", std::move(capabilities)},
            {"aliases", card.names},
            {"penstock",
             {{"family", known(card.family)},
              {"format", known(card.format)},
              {"executor", known(card.executor)},
              {"loading", card.loading},
              {"pinned", card.pinned},
              {"in_use", card.leases}}}};
  }

  void start(Decoded decoded, std::unique_ptr<Encoder> encoder, std::string_view id_prefix,
             const ExchangePtr& exchange) const {
    AnswerOptions options;
    options.head = {make_id(id_prefix), base::unix_seconds(), "", decoded.include_usage,
                    std::move(decoded.notes)};
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
  add_encoding_routes(surface, service, ignored);
  surface.add("GET", "/v1/models",
              [handlers](const auto&, const ExchangePtr& exchange) { handlers->models(exchange); });
  surface.add("GET", "/v1/models/{id...}", [handlers](const auto& request, const ExchangePtr& exchange) {
    handlers->model(request, exchange);
  });
}

}  // namespace penstock::api::openai
